class ExportError(Exception):
    """Something a person can act on: `code` for programs, the message and `hint` for people."""

    def __init__(self, code, message, hint=""):
        super().__init__(message)
        self.code = code
        self.hint = hint
