"""Converts the checkpoints of tests/golden/fixtures to GGUF files with the converter of llama.cpp.

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
    tar xf llama_cpp_python-0.3.36.tar.gz
    python tests/golden/make_gguf.py llama_cpp_python-0.3.36/vendor/llama.cpp [NAME…]

Writes tests/golden/gguf/NAME.gguf, with the names, order of rows and metadata of published files. Weights have the storage type of the
fixture. The files have no tokenizers. Needs torch and transformers.
"""

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

FOLDER = Path(__file__).parent
# Families that the converter lacks, or whose features it loses.
LEFT_OUT = {
    "gemma3-listed", "qwen2-listed", "smollm3-listed",  # GGUF has no lists of layers
    "qwen2moe-dense", "qwen3moe-dense",  # GGUF has no layers of two kinds
    "bullet", "bullet-tied",  # in no library
    "codegen", "gptj", "helium", "nanochat", "vaultgemma",  # GGUF has no such architectures
    "falcon-h1-normed",  # GGUF lacks the order of norm and gate
    "falcon-rw",  # GGUF lacks ALiBi
    "granite_swa-bases",  # GGUF lacks the bases of layers
    "granitemoe_swa",  # gates and ups of all experts are in one tensor
    "granite-hybrid-rope",  # GGUF lacks the kind of positions
    "gemma2",  # GGUF lacks the factor of scores, which is known for published sizes only
    "llama-dynamic",  # GGUF lacks the scaling
    "mistral",  # GGUF lacks the window
    "mpnet",  # there is no such architecture
    "nomic-moe",  # the converter loses the bias of experts
    "phi-qk-norm",  # GGUF lacks the norms
}
# Changes of the config.json of transformers 5 for the converter, which expects older ones.
GRANITE_LAYERS = {"layer_types": ["mamba", "mamba", "attention", "mamba"], "position_embedding_type": "nope"}
PUBLISHED = {
    "cohere2": {"rotary_pct": 1.0},
    "eurobert": {"classifier_pooling": "mean"},  # published ones have files of sentence-transformers beside them
    "falcon": {"num_kv_heads": 1},
    "granite_swa": {"no_rope_layers": [0, 1, 1, 1]},
    "granite-hybrid": GRANITE_LAYERS,
    "granite-hybrid-moe": GRANITE_LAYERS,
    "glm": {"seq_length": 64, "layernorm_epsilon": 1.5625e-07},
    "gpt2": {"n_ctx": 32},
    "hunyuan": {"max_position_embeddings": 32768},
    "mpt": {"architectures": ["MPTForCausalLM"]},
    "neox": {"rotary_pct": 0.25},
    "nomic-bert": {"n_positions": 8192, "max_trained_positions": 2048, "rotary_emb_scale_base": None, "hidden_size": 36, "num_hidden_layers": 2,
                   "num_attention_heads": 3, "intermediate_size": 52, "layer_norm_eps": 0.05},
    "nomic-moe-unbiased": {"n_positions": 2048, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 40,
                           "layer_norm_eps": 0.05, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "modern-bert": {"layer_norm_eps": 0.05, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 100.0},
    "neox-sequential": {"rotary_pct": 0.5},
}


def storage(folder, gguf):
    with safe_open(folder / "model.safetensors", "pt") as file:
        dtype = file.get_tensor(next(iter(file.keys()))).dtype
    return {torch.float16: gguf.LlamaFileType.MOSTLY_F16, torch.bfloat16: gguf.LlamaFileType.MOSTLY_BF16, torch.float32: gguf.LlamaFileType.ALL_F32}[dtype]


# The converter supports the norms of BitNet with the names of its first models only.
BITNET_NORMS = {"self_attn.attn_sub_norm": "self_attn.inner_attn_ln", "mlp.ffn_sub_norm": "mlp.ffn_layernorm"}


def copied(name, folder):
    """Copies the fixture with the config.json of a published model, and a vocabulary of which only the size matters."""
    shutil.copy(FOLDER / "fixtures" / name / "model.safetensors", folder)
    if name == "bitnet":
        tensors = load_file(folder / "model.safetensors")
        for new, old in BITNET_NORMS.items():
            tensors = {key.replace(new, old): value for key, value in tensors.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**json.loads((FOLDER / "fixtures" / name / "config.json").read_text()), **PUBLISHED.get(name, {})}
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {str(i): i for i in range(config["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": vocabulary}, "added_tokens": []}))


def yield_returned(kind):
    """Fixes functions of version 0.3.36 that return a generator of tensors in place of yielding from it (norms of heads of StableLM)."""
    modify = kind.modify_tensors

    def modify_tensors(self, *args):
        result = yield from modify(self, *args)
        if result is not None:
            yield from result
    kind.modify_tensors = modify_tensors


def convert(name, folder):
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    copied(name, folder)
    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
    kind.no_mtp = True  # fixtures have no layers for draft tokens
    if name == "stablelm-2":
        yield_returned(kind)
    out = FOLDER / "gguf" / f"{name}.gguf"
    settings = {**ModelBase.load_hparams(folder, False), **PUBLISHED.get(name, {})}
    # Ternary weights are exact in f32 only, since their scale is not exact in half precision.
    stored = gguf.LlamaFileType.ALL_F32 if name == "bitnet" else storage(folder, gguf)
    model = kind(folder, stored, out, model_name=name, hparams=settings)
    if name == "bitnet":  # as in later converters; otherwise the activation is SiLU
        model.gguf_writer.add_hidden_act("relu2")
    model.set_vocab = lambda: None
    model.write()
    print(f"{name}: {out.stat().st_size} bytes, {kind.__name__}")


def add_sizes(out, name, config, padding=0):
    """Adds the sizes that all models have. `padding`: positions of the table that no token has."""
    out.add_name(name)
    out.add_block_count(config["num_hidden_layers"])
    out.add_context_length(config["max_position_embeddings"] - padding)
    out.add_embedding_length(config["hidden_size"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])


def finish(out):
    """Writes a file and closes it."""
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


# The converter knows these names of transformers' as those of a model with an adapter for each task only.
JINA_V3 = {
    "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "attn_output_norm", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down", "post_mlp_layernorm": "layer_output_norm",
}


def jina_v3():
    import gguf

    name, folder = "jina-v3", FOLDER / "fixtures" / "jina-v3"
    config = json.loads((folder / "config.json").read_text())
    out = gguf.GGUFWriter(FOLDER / "gguf" / f"{name}.gguf", "jina-bert-v3")
    add_sizes(out, name, config, padding=2)
    out.add_layer_norm_eps(config["layer_norm_eps"])
    out.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.MEAN)
    for key, value in load_file(folder / "model.safetensors").items():
        if key.startswith("pooler."):
            continue
        layer, module, ending = re.fullmatch(r"(?:layers\.(\d+)\.)?(.+)\.(weight|bias)", key).groups()
        if ending == "bias" or "orm" in module:
            value = value.float()
        out.add_tensor(f"{f'blk.{layer}.' if layer else ''}{JINA_V3[module]}.{ending}", value.numpy())
    finish(out)


# No release of the package supports EmbeddingGemma 2. The names are those of llama.cpp's converter of October 2026.
EMBEDDING_GEMMA2 = {
    "embed_tokens": "token_embd", "ple.per_layer_model_projection": "per_layer_model_proj", "ple.per_layer_projection_norm": "per_layer_proj_norm",
    "norm": "output_norm", "embedding_projection": "output", "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "post_feedforward_layernorm": "post_ffw_norm", "ple_block.per_layer_input_gate": "inp_gate", "ple_block.per_layer_projection": "proj",
    "ple_block.post_per_layer_input_norm": "post_norm", "layer_scalar": "layer_output_scale",
}


def embedding_gemma2():
    import gguf

    name, folder = "embedding-gemma2", FOLDER / "fixtures" / "embedding-gemma2"
    config = json.loads((folder / "config.json").read_text())
    out = gguf.GGUFWriter(FOLDER / "gguf" / f"{name}.gguf", "gemma-embedding2")
    slides = [kind == "sliding_attention" for kind in config["layer_types"]]
    layer_config = next(iter(config["per_layer_config"].values()))
    rope = config["rope_parameters"]
    add_sizes(out, name, config)
    out.add_head_count_kv([config["num_key_value_heads"] if slide else layer_config["num_key_value_heads"] for slide in slides])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    out.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    out.add_sliding_window(2 * config["sliding_window"])  # both sides
    out.add_sliding_window_pattern(slides)
    out.add_shared_kv_layers(0)
    out.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    out.add_embedding_length_out(config["embedding_dim"])
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.MEAN)
    for add, dim in ((out.add_key_length, layer_config["head_dim"]), (out.add_value_length, layer_config["head_dim"]), (out.add_rope_dimension_count, layer_config["head_dim"]),
                     (out.add_key_length_swa, config["head_dim"]), (out.add_value_length_swa, config["head_dim"]), (out.add_rope_dimension_count_swa, config["head_dim"])):
        add(dim)
    for key, value in load_file(folder / "model.safetensors").items():
        layer, module = re.fullmatch(r"(?:layers\.(\d+)\.)?(.+?)(?:\.weight)?", key).groups()
        out.add_tensor(f"{f'blk.{layer}.' if layer else ''}{EMBEDDING_GEMMA2[module]}.weight", value.numpy())
    finish(out)


LFM3 = {
    "embed_tokens": "token_embd", "embedding_norm": "output_norm", "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "post_operator_norm": "post_attention_norm",
    "post_ffn_norm": "post_ffw_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.g_proj": "attn_gate", "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv", "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
}


def lfm3():
    """Names and keys are those that src/models/lfm3.cpp of llama.cpp reads; the converter of the release above does not know this model."""
    import gguf

    name, folder = "lfm3", FOLDER / "fixtures" / "lfm3"
    config = json.loads((folder / "config.json").read_text())
    out = gguf.GGUFWriter(FOLDER / "gguf" / f"{name}.gguf", name)
    kinds, rope, dim = config["layer_types"], config["rope_parameters"], config["head_dim"]
    add_sizes(out, name, config)
    out.add_head_count_kv([0 if kind == "conv" else config["num_key_value_heads"] for kind in kinds])
    out.add_key_length(dim)
    out.add_value_length(dim)
    out.add_layer_norm_rms_eps(config["norm_eps"])
    out.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    out.add_uint32(f"{name}.rope.dimension_count", dim)
    out.add_float32(f"{name}.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
    out.add_sliding_window(config["sliding_window"])
    out.add_array(f"{name}.attention.sliding_window_pattern", [kind == "sliding_attention" for kind in kinds])
    out.add_uint32(f"{name}.shortconv.l_cache", config["conv_L_cache"])
    rotated = int(rope["full_attention"]["partial_rotary_factor"] * dim // 2)
    out.add_tensor("rope_freqs.weight", np.array([1.0] * rotated + [1e30] * (dim // 2 - rotated), dtype=np.float32))
    for key, value in load_file(folder / "model.safetensors").items():
        layer, module = re.fullmatch(r"model\.(?:layers\.(\d+)\.)?(.+?)\.weight", key).groups()
        value = value.squeeze(1) if module == "conv.conv" else value
        exact = value.ndim == 1 or module == "conv.conv"
        out.add_tensor(f"{f'blk.{layer}.' if layer else ''}{LFM3[module]}.weight", (value.float() if exact else value).numpy())
    finish(out)


WRITTEN = {"embedding-gemma2": embedding_gemma2, "jina-v3": jina_v3, "lfm3": lfm3}

if __name__ == "__main__":
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/gguf-py"]
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    os.makedirs(FOLDER / "gguf", exist_ok=True)
    fixtures = {name for name in os.listdir(FOLDER / "fixtures") if not name.startswith("custom-")}  # these are in no library, either
    for name in sys.argv[2:] or sorted(fixtures - LEFT_OUT):
        if name in WRITTEN:
            WRITTEN[name]()
            continue
        with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
            convert(name, Path(folder))
