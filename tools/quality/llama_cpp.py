"""Native llama.cpp against the logits of reference.py, as quality.mjs: per position. Run by hand:
    python tools/quality/llama_cpp.py MODEL.gguf tokens.json reference.f32
Needs numpy and llama-cpp-py-sync (llama.cpp as its project builds it for PyPI). The KV cache is f16, llama.cpp's default."""
import json
import sys

import llama_cpp_py_sync
import numpy as np

WINDOW = 1000
BATCH = 100


def log_probabilities(logits):
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def decode(model, tokens, first):
    """Logits of all these tokens, at positions from `first`."""
    ffi, lib = model._ffi, model._lib
    batch = lib.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, first + i, 1, 1
        batch.seq_id[i][0] = 0
    if lib.llama_decode(model._ctx, batch) != 0:
        raise RuntimeError("llama_decode failed")
    rows = np.frombuffer(ffi.buffer(lib.llama_get_logits(model._ctx), 4 * len(tokens) * model.n_vocab), np.float32)
    rows = rows.reshape(len(tokens), -1).copy()
    lib.llama_batch_free(batch)
    return rows


def main(path, tokens, reference):
    ids = json.load(open(tokens))
    model = llama_cpp_py_sync.Llama(path, n_ctx=1024, n_batch=BATCH, n_threads=1)
    rows = np.memmap(reference, dtype=np.float32, mode="r").reshape(-1, model.n_vocab)
    agree = kl = positions = surprise = reference_surprise = predicted = 0
    for start in range(0, min(len(ids), len(rows)), BATCH):
        if start % WINDOW == 0:
            model._clear_context_state()
        scores = decode(model, ids[start:start + BATCH], start % WINDOW)
        for i, row in enumerate(scores, start):
            p, q = log_probabilities(rows[i]), log_probabilities(row)
            positions += 1
            agree += int(rows[i].argmax() == row.argmax())
            kl += float((np.exp(p) * (p - q)).sum())
            if i + 1 < len(ids) and (i + 1) % WINDOW:
                predicted += 1
                surprise -= q[ids[i + 1]]
                reference_surprise -= p[ids[i + 1]]
        if (start + BATCH) % WINDOW == 0:
            print(start + BATCH, f"KL {kl / positions:.5f}", file=sys.stderr, flush=True)
    ours, theirs = np.exp(surprise / predicted), np.exp(reference_surprise / predicted)
    print(f"llama.cpp (llama-cpp-py-sync {llama_cpp_py_sync.__version__}), KV f16: {positions} positions, top-1 {100 * agree / positions:.2f} %, "
          f"KL {kl / positions:.5f}, perplexity {ours:.4f} (reference {theirs:.4f}, {100 * (ours / theirs - 1):.2f} %)")


main(*sys.argv[1:])
