"""Native llama.cpp against the logits of reference.py, as quality.mjs: per position. Run by hand:
    python tools/quality/llama_cpp.py MODEL.gguf tokens.json reference.f32
Needs llama-cpp-python and numpy. The KV cache is f16, llama.cpp's default."""
import json
import sys

import llama_cpp
import numpy as np

WINDOW = 1000


def log_probabilities(logits):
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def main(path, tokens, reference):
    ids = json.load(open(tokens))
    model = llama_cpp.Llama(path, n_ctx=1024, n_batch=512, logits_all=True, n_threads=2, verbose=False)
    vocab = model.n_vocab()
    rows = np.memmap(reference, dtype=np.float32, mode="r").reshape(-1, vocab)
    agree = kl = positions = surprise = reference_surprise = predicted = 0
    for start in range(0, min(len(ids), len(rows)), WINDOW):
        window = ids[start:start + WINDOW]
        model.reset()
        model.eval(window)
        for i in range(len(window)):
            p, q = log_probabilities(rows[start + i]), log_probabilities(model.scores[i])
            positions += 1
            agree += int(rows[start + i].argmax() == model.scores[i].argmax())
            kl += float((np.exp(p) * (p - q)).sum())
            if i + 1 < len(window):
                predicted += 1
                surprise -= q[window[i + 1]]
                reference_surprise -= p[window[i + 1]]
    ours, theirs = np.exp(surprise / predicted), np.exp(reference_surprise / predicted)
    print(f"llama.cpp (llama-cpp-python {llama_cpp.__version__}), KV f16: {positions} positions, top-1 {100 * agree / positions:.2f} %, "
          f"KL {kl / positions:.5f}, perplexity {ours:.4f} (reference {theirs:.4f}, {100 * (ours / theirs - 1):.2f} %)")


main(*sys.argv[1:])
