class ExportError(Exception):
    """An error with a `code` for programs, a message, and a `hint` how to correct it."""

    def __init__(self, code, message, hint=""):
        super().__init__(message)
        self.code = code
        self.hint = hint
