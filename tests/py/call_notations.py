"""Reads arguments of calls: call_notations.py python|gemma; a JSON list of texts in, a JSON list of objects out.

`python` is read by Python's own parser. `gemma` is a second reader of that notation, which shares no code with ours.
"""

import ast
import json
import re
import sys

WORDS = {"true": True, "false": False, "null": None}


class Words(ast.NodeTransformer):
    """JSON's words in place of names."""

    def visit_Name(self, node):
        return ast.copy_location(ast.Constant(WORDS[node.id]), node)


def read_python(text):
    call = ast.parse(f"f({text})", mode="eval").body
    assert not call.args
    return {keyword.arg: ast.literal_eval(Words().visit(keyword.value)) for keyword in call.keywords}


def read_gemma(text):
    """Cuts the text into strings and others first, so that nothing in a string is taken for a mark."""
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
        found = [] if text == "[" else {}
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
                found[name] = item
            else:
                found.append(item)
            if tokens[at] == ("mark", ","):
                at += 1
        return found, at + 1
    return {**WORDS, "None": None}[text] if text in WORDS or text == "None" else json.loads(text), at + 1


READERS = {"python": read_python, "gemma": read_gemma}
print(json.dumps([READERS[sys.argv[1]](text) for text in json.load(sys.stdin)]))
