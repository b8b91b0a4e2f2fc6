"""Trains the bundled chat model.

    nice -n 10 python tools/train/train.py build/train --minutes 85
    nice -n 10 python tools/train/train.py build/train --minutes 150 --init models/chat.bq4 --rate 1.5e-3 --context 1024 --rows 6 --stages chat=1

Reads OUT/tokenizer.json, OUT/valid.npz and the mixes of --stages. Writes OUT/loss.csv, OUT/state.pt
(weights and optimizers: the same command resumes the training) and OUT/hf (Hugging Face layout) every
10 minutes. Training pauses while a file OUT/pause exists; pauses do not count as training time. The
learning rate depends on the training time: a warm-up, then a cosine until the end of --minutes. After
Ctrl-C or SIGTERM the state is saved and the program ends.

The last part of the training is quantization-aware: each step uses the layers' matrices rounded to BQ4, and
the gradient changes the matrices before rounding, which are saved. The embedding is not rounded, since it is
stored in 8 bits.

`--init` starts from a checkpoint (checkpoint.py describes which ones are possible). Additional layers, and a
wider feed-forward part, have no effect at first.
"""

import argparse
import csv
import math
import os
import signal
import time
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F

from checkpoint import start_from
from model import Config, Llama, save_hf
from muon import Muon

EOT = 0


class Rows:
    """An endless sequence of rows of `length` + 1 tokens, in random order. A row starts at the beginning of a document.

    Short documents share a row. Tokens beyond the end of a row are omitted.
    """

    def __init__(self, path, rng, length):
        self.length = length
        with np.load(path) as f:
            self.ids, self.weights, self.starts = f["ids"], f["weights"], f["starts"]
        self.ends = np.append(self.starts[1:], len(self.ids))
        self.rng = rng
        self.order = []

    def row(self):
        """Returns the tokens of a row and their weights, 0 to 1."""
        size = self.length + 1
        ids = np.full(size, EOT, np.int64)
        weights = np.zeros(size, np.float32)
        filled = 0
        while filled < size:
            if len(self.order) == 0:
                self.order = self.rng.permutation(len(self.starts))
            doc, self.order = self.order[0], self.order[1:]
            start = self.starts[doc]
            n = min(self.ends[doc] - start, size - filled)
            ids[filled:filled + n] = self.ids[start:start + n]
            weights[filled:filled + n] = self.weights[start:start + n]
            filled += n
        return ids, weights / 100

    def batch(self, rows):
        """Returns several rows."""
        ids, weights = zip(*(self.row() for _ in range(rows)))
        return torch.from_numpy(np.stack(ids)), torch.from_numpy(np.stack(weights))


def loss_of(model, ids, weights, bf16=False):
    """Returns the mean cross-entropy in nats, weighted by target token."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model(ids[:, :-1])
    losses = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    w = weights[:, 1:].flatten()
    return (losses * w).sum() / w.sum().clamp(min=1)


def layer_matrices(model):
    """Returns the matrices of the layers."""
    return [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]


@contextmanager
def rounded_weights(params):
    """Replaces weights by their 4-bit values inside of a `with` statement: integers from -7 to 7 times max|w| / 7 of 32 weights."""
    originals = [p.data for p in params]
    for p in params:
        w = p.data.view(-1, 32)
        scale = w.abs().amax(1, keepdim=True).clamp(min=1e-8) / 7
        p.data = ((w / scale).round().clamp(-8, 7) * scale).view(p.shape)
    try:
        yield
    finally:
        for p, w in zip(params, originals):
            p.data = w


def create_optimizers(model, rate):
    """Returns Muon for the matrices of the layers and AdamW for the embedding and the norms."""
    norms = [p for p in model.parameters() if p.ndim == 1]
    embedding = [p for n, p in model.named_parameters() if "embed" in n]
    return [
        Muon(layer_matrices(model), lr=rate),
        torch.optim.AdamW([{"params": embedding, "weight_decay": 0.05}, {"params": norms, "weight_decay": 0.0}],
                          lr=rate, betas=(0.9, 0.97), fused=True),
    ]


@torch.no_grad()
def valid_loss(model, out, batches=2):
    """Returns the loss of the same few rows each time. evaluate.py reads all held-out dialogues."""
    data = Rows(f"{out}/valid.npz", np.random.default_rng(9), min(512, model.config.max_position_embeddings))
    return sum(loss_of(model, *data.batch(12)).item() for _ in range(batches)) / batches


def parse_stages(text):
    """Parses the mixes and the share of the time at which each ends: "broad=0.33,chat=1" -> [("broad", 0.33), ("chat", 1.0)]."""
    return [(name, float(until)) for name, _, until in (s.partition("=") for s in text.split(","))]


def add_shape(parser):
    """Adds the options of the shape. Defaults are those of the bundled model."""
    shape = parser.add_argument_group("shape")
    shape.add_argument("--hidden", type=int, default=256)
    shape.add_argument("--layers", type=int, default=6)
    shape.add_argument("--heads", type=int, default=4)
    shape.add_argument("--kv-heads", type=int, default=2)
    shape.add_argument("--ffn", type=int, default=640)
    shape.add_argument("--context", type=int, default=512, help="tokens of a row, and context of the model")
    shape.add_argument("--theta", type=float, default=10000.0, help="base of RoPE")


def config_of(args, parser):
    """Checks the options of the shape and returns the configuration."""
    if args.hidden % args.heads or args.heads % args.kv_heads or (args.hidden // args.heads) % 2:
        parser.error(f"--heads: expected a divisor of --hidden {args.hidden} with an even quotient that is a multiple "
                     f"of --kv-heads {args.kv_heads}, found {args.heads}")
    for name in ("hidden", "ffn"):
        if getattr(args, name) % 32:
            parser.error(f"--{name}: expected a multiple of 32, the block size of BQ4, found {getattr(args, name)}")
    return Config(vocab_size=4096, hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=args.heads,
                  num_key_value_heads=args.kv_heads, intermediate_size=args.ffn, max_position_embeddings=args.context,
                  rope_theta=args.theta)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, required=True, help="training time without pauses")
    parser.add_argument("--stages", type=parse_stages, default=parse_stages("broad=0.33,chat=0.42,mixed=0.75,chat=1"))
    parser.add_argument("--round-from", type=float, default=0.8, help="share of the time after which matrices are rounded")
    parser.add_argument("--init", metavar="CHECKPOINT", help="initial weights: a folder in Hugging Face layout or a .bq4 file")
    parser.add_argument("--rate", type=float, default=3e-3, help="largest learning rate; about 1.5e-3 with --init")
    parser.add_argument("--rows", type=int, default=12, help="rows of --context tokens per step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="computes products in bf16: faster with AVX-512 BF16 or AMX, else much slower")
    parser.add_argument("--save-minutes", type=float, default=10)
    add_shape(parser)
    args = parser.parse_args()
    config = config_of(args, parser)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    out = args.out

    model = Llama(config)
    optimizers = create_optimizers(model, args.rate)
    step, tokens, seconds, mix, data = 0, 0, 0.0, None, None
    if os.path.exists(f"{out}/state.pt"):
        state = torch.load(f"{out}/state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        for o, s in zip(optimizers, state["optimizers"]):
            o.load_state_dict(s)
        step, tokens, seconds = state["step"], state["tokens"], state["seconds"]
        rng = np.random.default_rng([1, step])
        print(f"resumed at step {step}, {seconds / 60:.1f} minutes", flush=True)
    elif args.init:
        start_from(model, args.init)
        print(f"started from {args.init}: {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    else:
        print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    forward = torch.compile(model)
    log = open(f"{out}/loss.csv", "a", encoding="utf8", newline="")
    rows = csv.writer(log)
    if log.tell() == 0:
        rows.writerow(["step", "tokens", "minutes", "mix", "rate", "loss", "valid_loss"])

    def save():
        state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step,
                 "tokens": tokens, "seconds": seconds}
        torch.save(state, f"{out}/state.pt.part")
        os.replace(f"{out}/state.pt.part", f"{out}/state.pt")
        save_hf(model, f"{out}/hf", f"{out}/tokenizer.json", torch.float32)

    stop_signals = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop_signals.append(True))
    total = args.minutes * 60
    last_save, losses, last_time = seconds, [], time.monotonic()
    while seconds < total and not stop_signals:
        while os.path.exists(f"{out}/pause") and not stop_signals:
            time.sleep(2)
            last_time = time.monotonic()
        progress = seconds / total
        next_mix = next(name for name, until in args.stages if progress < until)
        if next_mix != mix:
            mix, data = next_mix, Rows(f"{out}/{next_mix}.npz", rng, args.context)
        scale = min(1, (step + 1) / 150) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        for o in optimizers:
            for group in o.param_groups:
                group["lr"] = args.rate * scale
        with rounded_weights(layer_matrices(model) if progress >= args.round_from else []):
            loss = loss_of(forward, *data.batch(args.rows), bf16=args.bf16)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in optimizers:
            o.step()
            o.zero_grad(set_to_none=True)
        step += 1
        tokens += args.rows * args.context
        losses.append(loss.item())
        now = time.monotonic()
        seconds, last_time = seconds + now - last_time, now
        if step % 50 == 0:
            valid = f"{valid_loss(model, out):.4f}" if step % 250 == 0 else ""
            mean = sum(losses) / len(losses)
            losses = []
            rows.writerow([step, tokens, f"{seconds / 60:.2f}", mix, f"{args.rate * scale:.6f}", f"{mean:.4f}", valid])
            log.flush()
            print(f"{step} {mix} loss {mean:.3f} {valid} {seconds / 60:.1f} min {tokens / seconds:.0f} tokens/s", flush=True)
        if seconds - last_save >= args.save_minutes * 60:
            save()
            last_save = seconds
    save()
    print(f"{'stopped' if stop_signals else 'done'}: {step} steps, valid loss {valid_loss(model, out):.4f}", flush=True)


if __name__ == "__main__":
    main()
