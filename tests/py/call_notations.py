"""Reads arguments of calls: `call_notations.py python|gemma` reads a JSON list of texts and writes a JSON list of objects.

`python` uses the parser of Python. `gemma` is a second reader of that notation, which shares no code with js/text.
"""

import ast
import json
import re
import sys

WORDS = {"true": True, "false": False, "null": None}


class Words(ast.NodeTransformer):
    """Replaces names by the words of JSON."""

    def visit_Name(self, node):
        return ast.copy_location(ast.Constant(WORDS[node.id]), node)


def read_python(text):
    call = ast.parse(f"f({text})", mode="eval").body
    assert not call.args
    return {keyword.arg: ast.literal_eval(Words().visit(keyword.value)) for keyword in call.keywords}


def read_gemma(text):
    """Splits the text into strings and other parts first, so that characters of strings are no marks."""
    parts = text.split('<|"|>')
    tokens = []
    for i, part in enumerate(parts):
        if i % 2:
            tokens.append(("string", part))
        else:
            tokens += [("mark", mark) for mark in re.findall(r"[{}\[\],:]|[^{}\[\],:]+", part)]
    value, end = _value(tokens, 0)
    assert end == len(tokens), tokens[end:]
    return value


def _value(tokens, at):
    kind, text = tokens[at]
    if kind == "string":
        return text, at + 1
    if text in "{[":
        result = [] if text == "[" else {}
        close = "]" if text == "[" else "}"
        at += 1
        while tokens[at] != ("mark", close):
            name = None
            if close == "}":
                name = tokens[at][1]
                assert tokens[at + 1] == ("mark", ":"), tokens[at:]
                at += 2
            item, at = _value(tokens, at)
            if close == "}":
                result[name] = item
            else:
                result.append(item)
            if tokens[at] == ("mark", ","):
                at += 1
        return result, at + 1
    return {**WORDS, "None": None}[text] if text in WORDS or text == "None" else json.loads(text), at + 1


READERS = {"python": read_python, "gemma": read_gemma}
print(json.dumps([READERS[sys.argv[1]](text) for text in json.load(sys.stdin)]))
