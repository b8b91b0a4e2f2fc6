"""The checkpoints of tests/golden/fixtures as GGUF files, by llama.cpp's own converter.

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
    tar xf llama_cpp_python-0.3.36.tar.gz
    python tests/golden/make_gguf.py llama_cpp_python-0.3.36/vendor/llama.cpp [NAME…]

Writes tests/golden/gguf/NAME.gguf: what models of each family look like in the files that people have, names, order of rows
and metadata, written by the program that makes them. Weights are the fixture's own, in the type that it is stored in.
Tokenizers are left out. Needs torch and transformers.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open

HERE = Path(__file__).parent
# The converter has no row for them, or loses what they are about.
LEFT_OUT = {
    "gemma3-listed", "qwen2-listed", "smollm3-listed",  # lists of layers are not said
    "qwen2moe-dense", "qwen3moe-dense",  # layers of two kinds have no place
    "bullet", "bullet-tied",  # of no library
    "falcon-h1-normed",  # the order of norm and gate is not said
    "falcon-rw",  # ALiBi is not said
    "granite-hybrid-rope",  # positions are not said
    "gemma2",  # the factor of scores is not said, unless it is that of a public size
    "llama-dynamic",  # scaling is not said
    "mistral",  # the window is not said
    "mpnet",  # there is no such architecture
    "phi-qk-norm",  # norms have no place
}
# Where the config.json that transformers 5 writes differs from those that the converter was made for.
GRANITE_LAYERS = {"layer_types": ["mamba", "mamba", "attention", "mamba"], "position_embedding_type": "nope"}
PUBLISHED = {
    "falcon": {"num_kv_heads": 1},
    "granite-hybrid": GRANITE_LAYERS,
    "granite-hybrid-moe": GRANITE_LAYERS,
    "gpt2": {"n_ctx": 32},
    "mpt": {"architectures": ["MPTForCausalLM"]},
    "neox": {"rotary_pct": 0.25},
    "nomic-bert": {"n_positions": 8192, "max_trained_positions": 2048, "rotary_emb_scale_base": None, "hidden_size": 36, "num_hidden_layers": 2,
                   "num_attention_heads": 3, "intermediate_size": 52, "layer_norm_eps": 0.05},
    "modern-bert": {"layer_norm_eps": 0.05, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 100.0},
    "neox-sequential": {"rotary_pct": 0.5},
}


def storage(folder, gguf):
    with safe_open(folder / "model.safetensors", "pt") as file:
        dtype = file.get_tensor(next(iter(file.keys()))).dtype
    return {torch.float16: gguf.LlamaFileType.MOSTLY_F16, torch.bfloat16: gguf.LlamaFileType.MOSTLY_BF16, torch.float32: gguf.LlamaFileType.ALL_F32}[dtype]


def copied(name, folder):
    """The fixture as a public model: its config.json, and a vocabulary that is only counted."""
    shutil.copy(HERE / "fixtures" / name / "model.safetensors", folder)
    config = {**json.loads((HERE / "fixtures" / name / "config.json").read_text()), **PUBLISHED.get(name, {})}
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {str(i): i for i in range(config["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": vocabulary}, "added_tokens": []}))


def yield_returned(kind):
    """Some functions of 0.3.36 return a generator of tensors where they should yield from it (StableLM's norms of heads)."""
    modify = kind.modify_tensors

    def modify_tensors(self, *args):
        rest = yield from modify(self, *args)
        if rest is not None:
            yield from rest
    kind.modify_tensors = modify_tensors


def convert(name, folder):
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    copied(name, folder)
    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
    kind.no_mtp = True  # the fixtures have no layers that draft tokens
    if name == "stablelm-2":
        yield_returned(kind)
    out = HERE / "gguf" / f"{name}.gguf"
    settings = {**ModelBase.load_hparams(folder, False), **PUBLISHED.get(name, {})}
    model = kind(folder, storage(folder, gguf), out, model_name=name, hparams=settings)
    model.set_vocab = lambda: None
    model.write()
    print(f"{name}: {out.stat().st_size} bytes, {kind.__name__}")


if __name__ == "__main__":
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/gguf-py"]
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    os.makedirs(HERE / "gguf", exist_ok=True)
    fixtures = {name for name in os.listdir(HERE / "fixtures") if not name.startswith("custom-")}  # these are of no library either
    for name in sys.argv[2:] or sorted(fixtures - LEFT_OUT):
        with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
            convert(name, Path(folder))
