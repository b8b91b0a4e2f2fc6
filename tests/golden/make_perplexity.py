"""Expected results of `bq4 perplexity`, computed by transformers: the golden tiny model on a text, alone and compared with the same
model with weights of 4 bits of mantissa.

    python tests/golden/make_perplexity.py

Writes tests/golden/perplexity.json. Windows overlap, and each token except the first of the text counts in the first window that has it.
Needs torch, transformers, tokenizers.
"""

import json
import math
import os
import platform

import tokenizers
import torch
import transformers

FOLDER = os.path.dirname(os.path.abspath(__file__))
TEXT = (
    "\"What do you see?\" said the old woman. \"A house by the river,\" said the boy, \"and smoke above it, and a dog that sleeps.\" "
    "She nodded, and asked again: \"What do you see?\" He looked for a long time. \"A house by the river, and smoke above it, and a "
    "dog that is awake now. It has heard us.\" Then they went on, down the hill and over the bridge, and the dog came to meet them.\n"
)
WINDOWS = [(64, 32), (48, 7), (200, 100)]
KEPT_BITS = 0xFFF00000 - (1 << 32)  # mask of the bits of an f32, as a signed number: sign, exponent, three stored bits of the mantissa


def coarse(model):
    for weight in model.state_dict().values():
        weight.copy_((weight.view(torch.int32) & KEPT_BITS).view(torch.float32))
    return model


def load():
    return transformers.LlamaForCausalLM.from_pretrained(f"{FOLDER}/tiny", dtype=torch.float32).eval()


def measure(model, reference, ids, context, stride):
    sums = {"predicted": 0, "nll": 0.0, "theirs": 0.0, "kl": 0.0, "same": 0}
    scored = 1
    for start in range(0, len(ids), stride):
        if scored >= len(ids):
            break
        window = torch.tensor([ids[start:start + context]])
        log_probabilities, reference_log_probabilities = (m(window).logits[0].double().log_softmax(-1) for m in (model, reference))
        for at in range(scored - start, window.shape[1]):
            p, q = log_probabilities[at - 1], reference_log_probabilities[at - 1]
            sums["predicted"] += 1
            sums["nll"] -= p[window[0, at]].item()
            sums["theirs"] -= q[window[0, at]].item()
            sums["kl"] += (q.exp() * (q - p)).sum().item()
            sums["same"] += int(p.argmax() == q.argmax())
        scored = start + window.shape[1]
    n = sums["predicted"]
    return {"context": context, "stride": stride, "predicted": n, "perplexity": math.exp(sums["nll"] / n),
            "against": {"perplexity": math.exp(sums["theirs"] / n), "kl": sums["kl"] / n, "agreement": sums["same"] / n}}


def main():
    torch.set_num_threads(1)
    ids = tokenizers.Tokenizer.from_file(f"{FOLDER}/tiny/tokenizer.json").encode(TEXT).ids
    with torch.no_grad():
        results = [measure(coarse(load()), load(), ids, *sizes) for sizes in WINDOWS]
    out = {"text": TEXT, "ids": ids, "measured": results,
           "made_with": {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
                         "tokenizers": tokenizers.__version__}}
    with open(f"{FOLDER}/perplexity.json", "w", encoding="utf8") as file:
        json.dump(out, file, indent=1)
        file.write("\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
