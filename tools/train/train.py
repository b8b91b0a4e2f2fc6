"""Trains the bundled chat model.

    nice -n 10 python tools/train/train.py build/train --minutes 85
    nice -n 10 python tools/train/train.py build/train --minutes 150 --init models/chat.bq4 --rate 1.5e-3 --context 1024 --rows 6 --stages chat=1

Reads OUT/tokenizer.json, OUT/valid.npz and the mixes of --stages; writes OUT/loss.csv, OUT/state.pt
(weights, optimizers, random state: run the same command again to resume) and OUT/hf (Hugging
Face layout) every 10 minutes. While a file OUT/pause exists it waits, and that time doesn't count.
The schedule follows training time: warm-up, then a cosine to the end of --minutes. Ctrl-C or SIGTERM saves
and ends.

The last part trains through BQ4's rounding (quantization-aware training): each step uses the
rounded matrices of the layers, and the gradient updates the unrounded ones, which are what is
saved. The embedding is left alone: it is meant to be stored in 8 bits.

`--init` starts from a checkpoint (checkpoint.py says which fit). Further layers, and a wider
feed-forward part, begin without an effect.
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

EOT = 0


class Rows:
    """Endless shuffled rows of `length` + 1 tokens; each begins where a document begins.

    Short documents share a row; the last one is cut at its end. A longer document loses its tail.
    """

    def __init__(self, path, rng, length):
        self.length = length
        with np.load(path) as f:
            self.ids, self.weights, self.starts = f["ids"], f["weights"], f["starts"]
        self.ends = np.append(self.starts[1:], len(self.ids))
        self.rng = rng
        self.order = []

    def row(self):
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
        ids, weights = zip(*(self.row() for _ in range(rows)))
        return torch.from_numpy(np.stack(ids)), torch.from_numpy(np.stack(weights))


def loss_of(model, ids, weights):
    """Mean cross-entropy in nats, weighted per target token."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids[:, :-1])
    each = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    w = weights[:, 1:].flatten()
    return (each * w).sum() / w.sum().clamp(min=1)


def inside(model):
    """The matrices inside the layers."""
    return [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]


@contextmanager
def rounded(params):
    """Lends the 4-bit values: per run of 32 weights, a whole number from -7 to 7 times max|w| / 7."""
    kept = [p.data for p in params]
    for p in params:
        w = p.data.view(-1, 32)
        scale = w.abs().amax(1, keepdim=True).clamp(min=1e-8) / 7
        p.data = ((w / scale).round().clamp(-8, 7) * scale).view(p.shape)
    try:
        yield
    finally:
        for p, w in zip(params, kept):
            p.data = w


def optimizers(model, rate):
    """Muon for the matrices inside the layers, AdamW for the embedding and the norms."""
    norms = [p for p in model.parameters() if p.ndim == 1]
    embedding = [p for n, p in model.named_parameters() if "embed" in n]
    return [
        torch.optim.Muon(inside(model), lr=rate, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([{"params": embedding, "weight_decay": 0.05}, {"params": norms, "weight_decay": 0.0}],
                          lr=rate, betas=(0.9, 0.97), fused=True),
    ]


@torch.no_grad()
def valid_loss(model, out, batches=2):
    """A quick look: always the same rows. evaluate.py reads all held-out dialogues."""
    data = Rows(f"{out}/valid.npz", np.random.default_rng(9), min(512, model.config.max_position_embeddings))
    return sum(loss_of(model, *data.batch(12)).item() for _ in range(batches)) / batches


def stages(text):
    """"broad=0.33,chat=1" -> [("broad", 0.33), ("chat", 1.0)]: each mix until that part of the time."""
    return [(name, float(until)) for name, _, until in (s.partition("=") for s in text.split(","))]


def add_shape(parser):
    """Options of the shape; as they are by default, the bundled model's. 16 layers and an FFN of 768 make 14 M parameters."""
    shape = parser.add_argument_group("shape")
    shape.add_argument("--hidden", type=int, default=256)
    shape.add_argument("--layers", type=int, default=6)
    shape.add_argument("--heads", type=int, default=4)
    shape.add_argument("--kv-heads", type=int, default=2)
    shape.add_argument("--ffn", type=int, default=640)
    shape.add_argument("--context", type=int, default=512, help="tokens in a row, and what the model says its context is")
    shape.add_argument("--theta", type=float, default=10000.0, help="of RoPE")


def shape_of(args, parser):
    if args.hidden % args.heads or args.heads % args.kv_heads or (args.hidden // args.heads) % 2:
        parser.error(f"--heads: expected a divisor of --hidden {args.hidden} that leaves an even size of a head and is a multiple "
                     f"of --kv-heads {args.kv_heads}, found {args.heads}")
    for name in ("hidden", "ffn"):
        if getattr(args, name) % 32:
            parser.error(f"--{name}: expected a multiple of 32, which BQ4 rounds together, found {getattr(args, name)}")
    return Config(vocab_size=4096, hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=args.heads,
                  num_key_value_heads=args.kv_heads, intermediate_size=args.ffn, max_position_embeddings=args.context,
                  rope_theta=args.theta)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, required=True, help="training time, pauses left out")
    parser.add_argument("--stages", type=stages, default=stages("broad=0.33,chat=0.42,mixed=0.75,chat=1"))
    parser.add_argument("--round-from", type=float, default=0.8, help="part of the time after which matrices are rounded")
    parser.add_argument("--init", metavar="CHECKPOINT", help="a folder in Hugging Face layout or a .bq4 file to start from")
    parser.add_argument("--rate", type=float, default=3e-3, help="at its peak; about 1.5e-3 with --init")
    parser.add_argument("--rows", type=int, default=12, help="rows of --context tokens in a step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save-minutes", type=float, default=10)
    add_shape(parser)
    args = parser.parse_args()
    config = shape_of(args, parser)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    out = args.out

    model = Llama(config)
    opts = optimizers(model, args.rate)
    step, tokens, seconds, mix, data = 0, 0, 0.0, None, None
    if os.path.exists(f"{out}/state.pt"):
        state = torch.load(f"{out}/state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        for o, s in zip(opts, state["optimizers"]):
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
        state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in opts], "step": step,
                 "tokens": tokens, "seconds": seconds}
        torch.save(state, f"{out}/state.pt.part")
        os.replace(f"{out}/state.pt.part", f"{out}/state.pt")
        save_hf(model, f"{out}/hf", f"{out}/tokenizer.json", torch.float32)

    ending = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.append(True))
    total = args.minutes * 60
    saved, recent, last = seconds, [], time.monotonic()
    while seconds < total and not ending:
        while os.path.exists(f"{out}/pause") and not ending:
            time.sleep(2)
            last = time.monotonic()
        part = seconds / total
        wanted = next(name for name, until in args.stages if part < until)
        if wanted != mix:
            mix, data = wanted, Rows(f"{out}/{wanted}.npz", rng, args.context)
        scale = min(1, (step + 1) / 150) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * part)))
        for o in opts:
            for group in o.param_groups:
                group["lr"] = args.rate * scale
        with rounded(inside(model) if part >= args.round_from else []):
            loss = loss_of(forward, *data.batch(args.rows))
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        step += 1
        tokens += args.rows * args.context
        recent.append(loss.item())
        now = time.monotonic()
        seconds, last = seconds + now - last, now
        if step % 50 == 0:
            valid = f"{valid_loss(model, out):.4f}" if step % 250 == 0 else ""
            mean = sum(recent) / len(recent)
            recent = []
            rows.writerow([step, tokens, f"{seconds / 60:.2f}", mix, f"{args.rate * scale:.6f}", f"{mean:.4f}", valid])
            log.flush()
            print(f"{step} {mix} loss {mean:.3f} {valid} {seconds / 60:.1f} min {tokens / seconds:.0f} tokens/s", flush=True)
        if seconds - saved >= args.save_minutes * 60:
            save()
            saved = seconds
    save()
    print(f"{'stopped' if ending else 'done'}: {step} steps, valid loss {valid_loss(model, out):.4f}", flush=True)


if __name__ == "__main__":
    main()
