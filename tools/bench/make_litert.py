"""Converts a GGUF file of a Llama model with a byte-level BPE tokenizer to LiteRT-LM's format.

    python make_litert.py MODEL.gguf OUT.litertlm

The weights are dequantized, written as a Hugging Face folder, and converted by litert-torch with its default recipe: int8
weights with a scale for each output, activations quantized to 8 bits at run time. In the wasm build, only these weights are
multiplied by relaxed SIMD. XNNPACK multiplies 4-bit weights with a scale for each output by plain SIMD, and those in blocks
of 32, as GGUF has them, by scalar code. Both were slower when measured.

The graph has fixed lengths: a prompt is computed 128 tokens at a time, and attention over 1,024 positions. The file has no
chat template. Its stop token is a control token that the model does not generate, so that a reply has as many tokens as
the benchmark requests.
"""
import argparse
import json
import os
import tempfile

import gguf
import numpy as np
from safetensors.numpy import save_file

PROMPT_TOKENS, CONTEXT_TOKENS = 128, 1024
UNUSED_TOKEN = "<empty_output>"
CONTROL_TYPE = gguf.TokenType.CONTROL
# Names of Hugging Face for the tensors of a layer, and for those outside layers.
LAYER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
               "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
               "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
MODEL_NAMES = {"token_embd": "embed_tokens", "output_norm": "norm"}


def split_pairs(weight, heads):
    """Returns rows in Hugging Face's order: first the first row of each rotated pair of a head, then the second rows."""
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def convert_weights(tensors, heads):
    """Returns f32 weights by Hugging Face's names. `heads`: their number by tensor name, for rotated tensors."""
    weights = {}
    for tensor in tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name, _, rest = tensor.name.removesuffix(".weight").partition(".")
        if rest:
            layer, kind = rest.split(".")
            if kind in heads:
                weight = split_pairs(weight, heads[kind])
            name = f"layers.{layer}.{LAYER_NAMES[kind]}"
        else:
            name = MODEL_NAMES[name]
        weights[f"model.{name}.weight"] = np.ascontiguousarray(weight)
    return weights


def tokenizer_json(tokens, types, merges):
    """Returns SmolLM2's tokenizer in Hugging Face's format."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    controls = [(id, token) for id, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL_TYPE]
    return {
        "version": "1.0",
        "added_tokens": [{"id": id, "content": token, "special": True, **flags} for id, token in controls],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {token: id for id, token in enumerate(tokens)}, "merges": [merge.split(" ") for merge in merges]},
    }


def write_folder(path, folder):
    """Writes a GGUF file as a Hugging Face folder."""
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields["general.architecture"] != "llama" or fields["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"{path}: expected the architecture llama with the tokenizer smollm, found {fields['general.architecture']} with {fields['tokenizer.ggml.pre']}")
    heads, kv_heads = fields["llama.attention.head_count"], fields["llama.attention.head_count_kv"]
    tokens = fields["tokenizer.ggml.tokens"]
    save_file(convert_weights(reader.tensors, {"attn_q": heads, "attn_k": kv_heads}), os.path.join(folder, "model.safetensors"), {"format": "pt"})
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": fields["llama.embedding_length"],
            "intermediate_size": fields["llama.feed_forward_length"],
            "num_hidden_layers": fields["llama.block_count"],
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": fields["llama.rope.dimension_count"],
            "vocab_size": len(tokens),
            "max_position_embeddings": fields["llama.context_length"],
            "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
            "rope_theta": fields["llama.rope.freq_base"],
            "tie_word_embeddings": True,
        },
        "generation_config.json": {"eos_token_id": tokens.index(UNUSED_TOKEN)},
        "tokenizer.json": tokenizer_json(tokens, fields["tokenizer.ggml.token_type"], fields["tokenizer.ggml.merges"]),
        # Without a BOS token, since the GGUF file's tokenizer adds none.
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": UNUSED_TOKEN},
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from litert_torch.generative.export_hf.export import export  # takes seconds, so --help does not wait for it

    # In the same file system as the result, so that it can be moved there atomically.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(args.out))) as work:
        source, result = os.path.join(work, "source"), os.path.join(work, "result")
        os.mkdir(source)
        write_folder(args.model, source)
        export(model=source, output_dir=result, prefill_lengths=[PROMPT_TOKENS], cache_length=CONTEXT_TOKENS)
        os.replace(os.path.join(result, "model.litertlm"), args.out)


if __name__ == "__main__":
    main()
