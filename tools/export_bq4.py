#!/usr/bin/env python3
"""Exports a PyTorch checkpoint (.pt, .pth, .bin, .pkl) or a llama2.c .bin to a .bq4 file.

    python tools/export_bq4.py model.pt out.bq4 [--config config.json] [--quant bq4] [--v1]

It needs NumPy, but not PyTorch. No code of a pickle is executed: only names in a short list of harmless
stand-ins are allowed, and a file with other names is refused. Prints the error of each tensor and the
compression ratio.
"""

import argparse
import base64
import os
import sys

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("export_bq4: expected NumPy, found none: pip install numpy")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bq4_export import llama2c, names, tokenizer, unpickle, write  # noqa: E402
from bq4_export.encode import FLAT, ROWS, TYPES, encode, run_layout, type_named  # noqa: E402
from bq4_export.errors import ExportError  # noqa: E402

# Keys under which training scripts save the weights.
WEIGHT_KEYS = ("model", "model_state_dict", "state_dict", "module", "params", "weights")


def is_state(value):
    """Whether a value is a dict that contains tensors."""
    return isinstance(value, dict) and any(isinstance(v, unpickle.Tensor) for v in value.values())


def find_state(value, key=None):
    """Returns the dict of tensors in a checkpoint. Raises FORMAT."""
    if key is not None:
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise ExportError("FORMAT", f'expected the key "{key}" in the checkpoint, found none', "--list prints its keys")
            value = value[part]
    elif isinstance(value, dict):
        value = next((value[k] for k in WEIGHT_KEYS if is_state(value.get(k))), value)
    if not is_state(value):
        raise ExportError("FORMAT", "expected a dict of tensors in the checkpoint, found none", "--list prints its content, --key NAME selects a part")
    other_key = next((k for k, v in value.items() if not isinstance(k, str) or not isinstance(v, unpickle.Tensor)), None)
    if other_key is not None:
        raise ExportError("FORMAT", f"expected a tensor, found the entry {other_key!r:.60}", "--key NAME selects a part of the checkpoint")
    return value


def describe(value, indent="", out=print):
    """Prints the content of a checkpoint."""
    for name, entry in value.items() if isinstance(value, dict) else [("(no dict)", value)]:
        if isinstance(entry, unpickle.Tensor):
            out(f"{indent}{name}: {entry.dtype} {tuple(entry.shape)}")
        elif isinstance(entry, dict):
            out(f"{indent}{name}:")
            describe(entry, indent + "  ", out)
        else:
            out(f"{indent}{name}: {entry!r:.80}")


def load(path, config_path=None, key=None):
    """Returns the tensors by canonical name, and the complete configuration."""
    if not os.path.exists(path):
        raise ExportError("READ", f"{path} can't be read: no such file", "check the path")
    file_config = names.from_json(config_path) if config_path else {}
    with open(path, "rb") as file:
        start = file.read(4)
    # A pickle of protocol 2 or later starts with the byte 0x80; no llama2.c header does.
    if start[:1] != b"\x80" and start != b"PK\x03\x04" and llama2c.looks_like(path):
        tensors, config = llama2c.read_checkpoint(path)
        return tensors, names.complete(tensors, config, file_config)
    checkpoint = unpickle.read_checkpoint(path)
    state = find_state(checkpoint, key)
    tensors, family_config = names.rename(state)
    arguments = checkpoint.get("model_args") if isinstance(checkpoint, dict) else None
    stored_config = names.from_arguments(arguments) if isinstance(arguments, dict) else {}
    folder_config = names.config_in_folder(path)
    if not file_config and not stored_config and folder_config:
        file_config = names.from_json(folder_config)
    return tensors, names.complete(tensors, family_config, stored_config, file_config)


class Export:
    """A tensor that is encoded when its bytes are requested. It records the number of bytes and the error figures."""

    def __init__(self, name, kind, layout, dims, tensor):
        self.name, self.kind, self.layout, self.dims, self.tensor = name, kind, layout, dims, tensor
        self.bytes = self.figures = None

    def data(self):
        """Returns the encoded bytes."""
        values = self.tensor.rows()
        try:
            data, decoded = encode(self.kind, self.layout, values.reshape(write.matrix_of(self.dims)))
        except ExportError as error:
            raise ExportError(error.code, f'tensor "{self.name}": {error}', error.hint) from error
        error = np.abs(values.ravel().astype(np.float64) - decoded.ravel())
        self.bytes, self.figures = len(data), (error.mean(), error.max(), np.sqrt(np.square(error).mean()))
        return data

    def entry(self):
        """Returns the row of the tensor for the functions of write.py."""
        return {"name": self.name, "type": self.kind, "layout": self.layout, "dims": self.dims, "data": self.data}


def report(exports, file_bytes, data_bytes, out=print):
    """Prints the errors and the sizes."""
    width = max(len(e.name) for e in exports)
    out(f"{'tensor':{width}}  {'type':8}{'bytes':>12}{'mean |e|':>10}{'max |e|':>10}{'rms e':>10}")
    for e in exports:
        out(f"{e.name:{width}}  {e.kind:8}{e.bytes:12}" + "".join(f"{f:10.2e}" for f in e.figures))
    weights = sum(int(np.prod(e.dims, dtype=np.int64)) for e in exports)
    out(f"{weights} weights in {data_bytes} bytes: {8 * data_bytes / weights:.2f} bits each, "
        f"{4 * weights / data_bytes:.2f} times smaller than f32; the file has {file_bytes} bytes")


def export(path, output, *, config=None, key=None, quant="bq4", embed=None, v1=False, tokenizer_path=None, name=None,
           license="", file_id=None, out=print):
    """Converts a checkpoint and prints a report. Raises ExportError; then no file is written."""
    quant = type_named(quant)
    embed = type_named(embed or ("bq8" if TYPES[quant][1] > 1 else quant))
    tensors, settings = load(path, config, key)
    matched = names.match(settings, tensors)
    tokens = llama2c.read_tokenizer(tokenizer_path, settings["vocab"]) if tokenizer_path else None
    name = name if name is not None else os.path.splitext(os.path.basename(path))[0]
    if v1:
        exports = [Export(n, write.v1_type(dims), FLAT, dims, t) for n, dims, _, t in matched if write.v1_type(dims)]
        unencoded = {n: {"dims": list(dims), "f32": base64.b64encode(t.rows().astype("<f4").tobytes()).decode()}
                 for n, dims, _, t in matched if not write.v1_type(dims)}
        companion = {"bq4_companion": 1, "config": settings, "license": license, "name": name, "tensors": unencoded}
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
    parser.add_argument("--config", help="JSON file: Hugging Face's config.json, or the keys of docs/FORMAT.md")
    parser.add_argument("--key", help='key of the weights in the checkpoint, such as "state.model"')
    parser.add_argument("--quant", default="bq4", help="type of the matrices (default bq4)")
    parser.add_argument("--embed", help="type of embedding and LM head (default bq8 if matrices are quantized)")
    parser.add_argument("--tokenizer", help="tokenizer.bin of llama2.c")
    parser.add_argument("--name")
    parser.add_argument("--license", default="")
    parser.add_argument("--v1", action="store_true", help="write a file of version 1.0, in which all matrices are BQ4, and its companion NAME.json")
    parser.add_argument("--list", action="store_true", help="print the content of the checkpoint")
    args = parser.parse_args()
    try:
        if args.list:
            describe(unpickle.read_checkpoint(args.input))
        elif not args.output:
            parser.error("expected OUTPUT, found none")
        else:
            export(args.input, args.output, config=args.config, key=args.key, quant=args.quant, embed=args.embed, v1=args.v1,
                   tokenizer_path=args.tokenizer, name=args.name, license=args.license)
    except ExportError as error:
        sys.exit(f"export_bq4: {error.code}: {error}" + (f"\n    {error.hint}" if error.hint else ""))


if __name__ == "__main__":
    main()
