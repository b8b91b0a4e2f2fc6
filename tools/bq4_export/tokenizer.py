"""SentencePiece tokenizers as a TOKN payload and as the companion's JSON (docs/FORMAT.md)."""

import base64
import struct

ADD_BOS, ADD_SPACE, BYTE_FALLBACK = 1, 4, 8
NONE = 0xFFFFFFFF
SPM = 1
UNK, BOS, EOS = 0, 1, 2
# llama2.c ends a text where the next one would begin.
ENDS = [BOS, EOS]


def payload(tokens):
    """tokens: [(bytes, score, kind)]."""
    texts = b"".join(t[0] for t in tokens)
    out = struct.pack("<11I", SPM, ADD_BOS | ADD_SPACE | BYTE_FALLBACK, 0, BOS, EOS, UNK, NONE, len(ENDS), len(tokens), 0, len(texts))
    out += struct.pack(f"<{len(ENDS)}I", *ENDS)
    end = 0
    for text, _, _ in tokens:
        end += len(text)
        out += struct.pack("<I", end)
    out += struct.pack(f"<{len(tokens)}f", *(t[1] for t in tokens)) + bytes(t[2] for t in tokens)
    return out + bytes(-len(out) % 4) + texts


def as_json(tokens):
    return {"kind": "spm", "add_bos": True, "add_space": True, "byte_fallback": True, "bos": BOS, "eos": EOS, "unk": UNK,
            "eog": ENDS, "tokens": [[base64.b64encode(text).decode(), score, kind] for text, score, kind in tokens]}
