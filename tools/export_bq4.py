#!/usr/bin/env python3
"""Exports a PyTorch checkpoint (.pt, .pth, .bin, .pkl) or a llama2.c .bin to a .bq4 file.

    python tools/export_bq4.py model.pt out.bq4 [--config config.json] [--quant bq4] [--v1]

Needs NumPy, not PyTorch. Nothing that a pickle says is executed: names of functions are looked up
in a short list of harmless ones, and a file that asks for others is refused. Prints the error of
every tensor and the compression ratio.
"""

import argparse
import base64
import os
import sys

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("export_bq4: NumPy is missing: pip install numpy")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bq4_export import llama2c, names, tokenizer, unpickle, write  # noqa: E402
from bq4_export.encode import FLAT, ROWS, TYPES, encode, run_layout, type_named  # noqa: E402
from bq4_export.errors import ExportError  # noqa: E402

# Where training scripts put the weights in what they save.
KEYS = ("model", "model_state_dict", "state_dict", "module", "params", "weights")


def is_state(value):
    return isinstance(value, dict) and any(isinstance(v, unpickle.Tensor) for v in value.values())


def find_state(value, key=None):
    """The dict of tensors within a checkpoint. FORMAT."""
    if key is not None:
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise ExportError("FORMAT", f'the checkpoint has no "{key}"', "--list shows what is there")
            value = value[part]
    elif isinstance(value, dict):
        value = next((value[k] for k in KEYS if is_state(value.get(k))), value)
    if not is_state(value):
        raise ExportError("FORMAT", "the checkpoint holds no tensors by name", "--list shows what is there, --key NAME takes a part")
    wrong = next((k for k, v in value.items() if not isinstance(k, str) or not isinstance(v, unpickle.Tensor)), None)
    if wrong is not None:
        raise ExportError("FORMAT", f"the entry {wrong!r:.60} is no tensor", "--key NAME takes a part of the checkpoint")
    return value


def describe(value, indent="", out=print):
    """Prints what is in a checkpoint."""
    for name, entry in value.items() if isinstance(value, dict) else [("(not a dict)", value)]:
        if isinstance(entry, unpickle.Tensor):
            out(f"{indent}{name}: {entry.dtype} {tuple(entry.shape)}")
        elif isinstance(entry, dict):
            out(f"{indent}{name}:")
            describe(entry, indent + "  ", out)
        else:
            out(f"{indent}{name}: {entry!r:.80}")


def load(path, config_path=None, key=None):
    """(canonical name -> tensor, whole configuration)."""
    if not os.path.exists(path):
        raise ExportError("READ", f"{path} can't be read: no such file", "check the path")
    given = names.from_json(config_path) if config_path else {}
    with open(path, "rb") as file:
        start = file.read(4)
    # A pickle of protocol 2 or later begins with 0x80, a number that no llama2.c header begins with.
    if start[:1] != b"\x80" and start != b"PK\x03\x04" and llama2c.looks_like(path):
        tensors, config = llama2c.read_checkpoint(path)
        return tensors, names.complete(tensors, config, given)
    checkpoint = unpickle.read_checkpoint(path)
    state = find_state(checkpoint, key)
    tensors, implied = names.rename(state)
    stored = checkpoint.get("model_args") if isinstance(checkpoint, dict) else None
    stored = names.from_arguments(stored) if isinstance(stored, dict) else {}
    beside = names.config_beside(path)
    if not given and not stored and beside:
        given = names.from_json(beside)
    return tensors, names.complete(tensors, implied, stored, given)


class Export:
    """A tensor on its way: encodes when its bytes are asked for, and keeps the error figures."""

    def __init__(self, name, kind, layout, dims, tensor):
        self.name, self.kind, self.layout, self.dims, self.tensor = name, kind, layout, dims, tensor
        self.bytes = self.figures = None

    def data(self):
        values = self.tensor.rows()
        try:
            data, back = encode(self.kind, self.layout, values.reshape(write.matrix_of(self.dims)))
        except ExportError as error:
            raise ExportError(error.code, f'tensor "{self.name}": {error}', error.hint) from error
        error = np.abs(values.ravel().astype(np.float64) - back.ravel())
        self.bytes, self.figures = len(data), (error.mean(), error.max(), np.sqrt(np.square(error).mean()))
        return data

    def entry(self):
        return {"name": self.name, "type": self.kind, "layout": self.layout, "dims": self.dims, "data": self.data}


def report(exports, file_bytes, data_bytes, out=print):
    width = max(len(e.name) for e in exports)
    out(f"{'tensor':{width}}  {'type':8}{'bytes':>12}{'mean |e|':>10}{'max |e|':>10}{'rms e':>10}")
    for e in exports:
        out(f"{e.name:{width}}  {e.kind:8}{e.bytes:12}" + "".join(f"{f:10.2e}" for f in e.figures))
    weights = sum(int(np.prod(e.dims, dtype=np.int64)) for e in exports)
    out(f"{weights} weights in {data_bytes} bytes: {8 * data_bytes / weights:.2f} bits each, "
        f"{4 * weights / data_bytes:.2f} times smaller than f32; the file has {file_bytes} bytes")


def export(path, output, *, config=None, key=None, quant="bq4", embed=None, v1=False, tokenizer_path=None, name=None,
           license="", file_id=None, out=print):
    """Converts and reports. Raises ExportError; leaves nothing behind then."""
    quant = type_named(quant)
    embed = type_named(embed or ("bq8" if TYPES[quant][1] > 1 else quant))
    tensors, settings = load(path, config, key)
    matched = names.match(settings, tensors)
    tokens = llama2c.read_tokenizer(tokenizer_path, settings["vocab"]) if tokenizer_path else None
    name = name if name is not None else os.path.splitext(os.path.basename(path))[0]
    if v1:
        exports = [Export(n, write.v1_type(dims), FLAT, dims, t) for n, dims, _, t in matched if write.v1_type(dims)]
        loose = {n: {"dims": list(dims), "f32": base64.b64encode(t.rows().astype("<f4").tobytes()).decode()}
                 for n, dims, _, t in matched if not write.v1_type(dims)}
        companion = {"bq4_companion": 1, "config": settings, "license": license, "name": name, "tensors": loose}
        if tokens:
            companion["tokenizer"] = tokenizer.as_json(tokens)
        sizes = write.write_v1(output, [e.entry() for e in exports], companion)
    else:
        exports = []
        for n, dims, embedding, t in matched:
            kind = "f32" if len(dims) == 1 else embed if embedding else quant
            exports.append(Export(n, kind, ROWS if len(dims) == 1 else run_layout(kind), dims, t))
        counts = {"tokens": len(tokens), "merges": 0} if tokens else {}
        sizes = write.write_v2(output, {**settings, **counts}, [e.entry() for e in exports], name, license,
                               tokenizer.payload(tokens) if tokens else b"", file_id)
    report(exports, *sizes, out)
    return exports


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("input")
    parser.add_argument("output", nargs="?", help="NAME.bq4")
    parser.add_argument("--config", help="JSON: Hugging Face's config.json, or the keys of docs/FORMAT.md")
    parser.add_argument("--key", help='which part of the checkpoint holds the weights, as "state.model"')
    parser.add_argument("--quant", default="bq4", help="type of the matrices (default bq4)")
    parser.add_argument("--embed", help="type of embedding and head (default bq8 where matrices are quantized)")
    parser.add_argument("--tokenizer", help="tokenizer.bin of llama2.c")
    parser.add_argument("--name")
    parser.add_argument("--license", default="")
    parser.add_argument("--v1", action="store_true", help="a v1.0 file and its companion NAME.json: all is BQ4")
    parser.add_argument("--list", action="store_true", help="print what is in the checkpoint")
    args = parser.parse_args()
    try:
        if args.list:
            describe(unpickle.read_checkpoint(args.input))
        elif not args.output:
            parser.error("OUTPUT is missing")
        else:
            export(args.input, args.output, config=args.config, key=args.key, quant=args.quant, embed=args.embed, v1=args.v1,
                   tokenizer_path=args.tokenizer, name=args.name, license=args.license)
    except ExportError as error:
        sys.exit(f"export_bq4: {error.code}: {error}" + (f"\n    {error.hint}" if error.hint else ""))


if __name__ == "__main__":
    main()
