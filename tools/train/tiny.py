"""Trains the golden tiny model of the tests (about 66,000 parameters) on public-domain books.

    python tools/train/tiny.py ../shared/data tests/golden/tiny

Its sizes are deliberately uncommon: hidden 48 and FFN 72 are no multiples of 32, vocabulary 300 is
no multiple of 8. It takes a few minutes on one core. The result depends on the CPU and on
PyTorch's version, so the tests compare with the committed model, not with a new run.
"""

import argparse
import glob
import math
import os
import re
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from model import Config, Llama, save_hf

SPECIAL_TOKENS = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"]


def train_bpe(texts, vocab_size):
    """Trains a byte-level BPE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=SPECIAL_TOKENS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), min_frequency=2))
    return tokenizer


def read_book(path):
    """Returns the text of a book with one paragraph per line and ASCII punctuation."""
    text = open(path, encoding="utf8", errors="ignore").read()
    for fancy, plain in {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--", "_": ""}.items():
        text = text.replace(fancy, plain)
    return "\n".join(re.sub(r"\s+", " ", p).strip() for p in re.split(r"\n\s*\n", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder that contains train/books")
    parser.add_argument("out", help="folder for the model")
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)

    books = [read_book(p) for p in sorted(glob.glob(f"{args.data}/train/books/*.txt"))]
    tokenizer = train_bpe(books, 300)
    ids = np.concatenate([np.array(e.ids) for e in tokenizer.encode_batch([b + SPECIAL_TOKENS[0] for b in books])])
    held_out, ids = ids[: len(ids) // 50], ids[len(ids) // 50:]

    model = Llama(Config(vocab_size=300, hidden_size=48, num_hidden_layers=3, num_attention_heads=6,
                         num_key_value_heads=3, intermediate_size=72, max_position_embeddings=256))
    print("parameters", sum(p.numel() for p in model.parameters()), "tokens", len(ids))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.01)

    def loss_of(data, rows):
        """Returns the loss of random rows of 256 tokens."""
        starts = rng.integers(0, len(data) - 257, rows)
        batch = torch.from_numpy(np.stack([data[i:i + 257] for i in starts]).astype(np.int64))
        return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    start = time.time()
    for step in range(args.steps):
        rate = min(1, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / args.steps))
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * rate + 1e-5
        optimizer.zero_grad()
        loss = loss_of(ids, 8)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 250 == 0:
            print(step, f"loss {loss.item():.3f} {time.time() - start:.0f} s", flush=True)
    model.eval()
    with torch.no_grad():
        print(f"held-out loss {loss_of(held_out, 64).item():.3f} per token")
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(os.path.join(folder, "tokenizer.json"))
        save_hf(model, args.out, os.path.join(folder, "tokenizer.json"), torch.float32, eos=0)
    new, _ = model.greedy(tokenizer.encode("Once upon a time").ids, 60, {0})
    print("Once upon a time" + tokenizer.decode(new))


if __name__ == "__main__":
    main()
