"""Evaluates a checkpoint: perplexity on held-out dialogues, and greedy replies to 20 prompts.

    python tools/train/evaluate.py build/train/hf --valid build/train/valid.npz --replies models/replies.json

The held-out dialogues (300 of self-dialogue, 60 of Synthetic-Persona-Chat) are in no mix. Each is
read separately, up to the size of the context. The words and end tokens of both speakers are measured.
"""

import argparse
import json
import math

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from check_replies import judge, load_check
from model import load_hf
from train import layer_matrices, rounded_weights

EOT, USER, ASSISTANT, END = range(4)
MAX_REPLY_TOKENS = 200


@torch.no_grad()
def perplexity(model, tokenizer, path):
    """Returns the perplexity and related figures on the dialogues of a file."""
    nats = tokens = characters = 0
    with np.load(path) as f:
        ids, weights, starts = f["ids"].astype(np.int64), f["weights"], f["starts"]
    for start, end in zip(starts, np.append(starts[1:], len(ids))):
        end = min(end, start + model.config.max_position_embeddings)
        x, counts = torch.from_numpy(ids[start:end]), torch.from_numpy(weights[start + 1:end] > 0)
        losses = F.cross_entropy(model(x[None, :-1])[0], x[1:], reduction="none")
        nats += losses[counts].sum().item()
        tokens += int(counts.sum())
        characters += len(tokenizer.decode(x[1:][counts].tolist()))
    return {"perplexity": math.exp(nats / tokens), "bits_per_character": nats / math.log(2) / characters, "tokens": tokens}


def converse(model, tokenizer, turns):
    """Returns greedy replies to the turns of a conversation, and whether the last reply ends with an end token."""
    ids, replies, finished = [], [], True
    for turn in turns:
        ids += [USER, *tokenizer.encode(turn, add_special_tokens=False).ids, END, ASSISTANT]
        new, finished = model.greedy(ids, MAX_REPLY_TOKENS, {END, EOT})
        ids += new + [END]
        replies.append(tokenizer.decode(new).strip())
    return replies, finished


def report(args, model, tokenizer):
    """Prints the evaluation."""
    if args.ask:
        for turn, reply in zip(args.ask, converse(model, tokenizer, args.ask)[0]):
            print(f"> {turn}\n{reply}")
        return
    if args.valid:
        figures = perplexity(model, tokenizer, args.valid)
        print(f"held-out perplexity {figures['perplexity']:.2f} per token, {figures['bits_per_character']:.3f} bits per character, "
              f"{figures['tokens']} tokens")
    answers = []
    for case in load_check():
        replies, finished = converse(model, tokenizer, case["turns"])
        answers.append({"id": case["id"], "turns": case["turns"], "replies": replies, "finished": finished})
    results = judge(answers)
    for answer, (case, result) in zip(answers, results):
        answer["verdict"] = result
        answer["heldout"] = case["heldout"]
        print(f"{result:10} {' / '.join(case['turns'])} -> {answer['replies'][-1]}")
    print(sum(result == "on topic" for _, result in results), "of", len(results), "on topic")
    if args.replies:
        with open(args.replies, "w", encoding="utf8") as f:
            json.dump(answers, f, indent=1, ensure_ascii=False)
            f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder in Hugging Face layout")
    parser.add_argument("--valid", help="valid.npz of prepare.py")
    parser.add_argument("--replies", help="file for the replies and verdicts")
    parser.add_argument("--ask", nargs="+", help="print only the replies to these turns of one conversation")
    parser.add_argument("--rounded", action="store_true", help="use the layers' matrices rounded to BQ4 (blocks of 32)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, tokenizer = load_hf(args.model), Tokenizer.from_file(f"{args.model}/tokenizer.json")
    if args.rounded:
        with rounded_weights(layer_matrices(model)):
            report(args, model, tokenizer)
    else:
        report(args, model, tokenizer)


if __name__ == "__main__":
    main()
