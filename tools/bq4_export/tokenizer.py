"""Writes SentencePiece tokenizers as the payload of the section TOKN and as JSON of the companion (docs/FORMAT.md)."""

import base64
import struct

ADD_BOS, ADD_SPACE, BYTE_FALLBACK = 1, 4, 8
NONE = 0xFFFFFFFF
SPM = 1
UNK, BOS, EOS = 0, 1, 2
# Tokens that end a generation. In llama2.c the BOS token, with which the next text starts, ends a text.
END_TOKENS = [BOS, EOS]


def payload(tokens):
    """Returns the payload of [(bytes, score, kind)]."""
    texts = b"".join(t[0] for t in tokens)
    out = struct.pack("<11I", SPM, ADD_BOS | ADD_SPACE | BYTE_FALLBACK, 0, BOS, EOS, UNK, NONE, len(END_TOKENS), len(tokens), 0, len(texts))
    out += struct.pack(f"<{len(END_TOKENS)}I", *END_TOKENS)
    end = 0
    for text, _, _ in tokens:
        end += len(text)
        out += struct.pack("<I", end)
    out += struct.pack(f"<{len(tokens)}f", *(t[1] for t in tokens)) + bytes(t[2] for t in tokens)
    return out + bytes(-len(out) % 4) + texts


def as_json(tokens):
    """Returns the JSON object of [(bytes, score, kind)]."""
    return {"kind": "spm", "add_bos": True, "add_space": True, "byte_fallback": True, "bos": BOS, "eos": EOS, "unk": UNK,
            "eog": END_TOKENS, "tokens": [[base64.b64encode(text).decode(), score, kind] for text, score, kind in tokens]}
