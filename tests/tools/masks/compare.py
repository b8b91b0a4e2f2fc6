"""Compares the masks of walk.mjs with those of llguidance, token by token.

    pip install llguidance==1.9.1 numpy
    python tests/tools/masks/compare.py FOLDER

Both follow the same tokens. Three differences are meant, and counted apart: where the next bytes are forced, llguidance allows
only the token that it would append itself, and ours all that can spell them (they are appended before anyone samples); the
character U+007F, which JSON allows in strings and llguidance doesn't; and the integer -0, which ours never writes. Exits with 1
where there is any other."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

STYLE = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}


class Vocabulary:
    """Tokens as bytes; those without are special, the first of them ends texts."""

    def __init__(self, tokens):
        self.special_token_ids = [i for i, token in enumerate(tokens) if not token]
        self.tokens = [token or b"\xff<|%d|>" % i for i, token in enumerate(tokens)]
        self.eos_token_id = self.special_token_ids[0]
        self.bos_token_id = None
        self.by_text = {token: i for i, token in enumerate(tokens)}

    def __call__(self, text):
        return [self.by_text[bytes([byte])] for byte in text]


def grammar_of(form):
    if form["type"] == "json_schema":
        return LLMatcher.grammar_from_json_schema(form["schema"], defaults=STYLE)
    if form["type"] == "regex":
        return LLMatcher.grammar_from_regex(form["pattern"])
    return LLMatcher.grammar_from_regex("|".join(re.escape(text) for text in form["choices"]))


def bits(mask, n):
    return set(np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")[:n]).tolist())


def main(folder):
    tokens = [bytes.fromhex(token) for token in json.loads((folder / "tokens.json").read_text())]
    vocabulary = Vocabulary(tokens)
    tokenizer = LLTokenizer(TokenizerWrapper(vocabulary))
    special = set(vocabulary.special_token_ids)
    count = Counter()
    for walk in json.loads((folder / "walks.json").read_text()):
        matcher = LLMatcher(tokenizer, grammar_of(walk["format"]))
        if matcher.is_error():
            raise SystemExit(f"llguidance refuses {walk['format']}: {matcher.get_error()}")
        text = b""
        for step in walk["walk"]:
            ours = bits(bytes.fromhex(step["mask"]), len(tokens)) - special
            forced = matcher.compute_ff_bytes()
            theirs = bits(matcher.compute_bitmask(), len(tokens)) - special
            kind = kind_of({tokens[i] for i in ours - theirs}, {tokens[i] for i in theirs - ours}, forced, text)
            if step["complete"] != matcher.is_accepting():
                kind = "other"
            count[kind] += 1
            if kind == "other":
                print(json.dumps(walk["format"])[:100], "ours", [tokens[i] for i in ours - theirs][:12], "theirs",
                      [tokens[i] for i in theirs - ours][:12])
            text += tokens[step["id"]]
            if not matcher.consume_token(step["id"]):
                raise SystemExit(f"llguidance refuses {tokens[step['id']]}, which we took")
    print(f"{sum(count.values())} masks:", ", ".join(f"{n} {kind}" for kind, n in count.most_common()))
    return 1 if count["other"] else 0


def kind_of(only_ours, only_theirs, forced, text):
    if only_theirs == {b"0"} and not only_ours and text.endswith(b"-"):
        return "with -0"
    if only_theirs:
        return "other"
    if not only_ours:
        return "equal"
    if only_ours == {b"\x7f"}:
        return "with U+007F"
    spells = all(token.startswith(forced) or forced.startswith(token) for token in only_ours)
    return "forced" if forced and spells else "other"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
