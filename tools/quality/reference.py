"""Computes the logits of a LLaMA model from a GGUF file in f32: gguf dequantizes the weights, transformers computes the model. It has the
protocol of tools/bench/peers/logits.c: it reads windows, each as a number of tokens and the tokens (i32), and writes a row of logits (f32)
for each token. quality.mjs runs it. It needs the packages of requirements.txt."""
import sys

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def separate_pairs(weight, heads):
    """Reorders the rows of q or k. RoPE rotates adjacent rows in GGUF, and rows that are half a head apart in transformers."""
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def load(path):
    """Returns the model of a GGUF file."""
    reader = gguf.GGUFReader(path)
    stored = {t.name: torch.from_numpy(np.array(gguf.dequantize(t.data, t.tensor_type), dtype=np.float32)) for t in reader.tensors}
    key = lambda name: reader.fields[f"llama.{name}"].contents()
    heads, kv_heads, layers = key("attention.head_count"), key("attention.head_count_kv"), key("block_count")
    config = LlamaConfig(
        vocab_size=len(stored["token_embd.weight"]), hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=key("context_length"),
        rms_norm_eps=key("attention.layer_norm_rms_epsilon"), tie_word_embeddings=False)
    config.rope_parameters = {"rope_type": "default", "rope_theta": key("rope.freq_base")}
    state = {"model.embed_tokens.weight": stored["token_embd.weight"], "model.norm.weight": stored["output_norm.weight"],
             "lm_head.weight": stored.get("output.weight", stored["token_embd.weight"])}
    names = {"attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    for i in range(layers):
        for gguf_name, name in names.items():
            state[f"model.layers.{i}.{name}.weight"] = stored[f"blk.{i}.{gguf_name}.weight"]
        state[f"model.layers.{i}.self_attn.q_proj.weight"] = separate_pairs(stored[f"blk.{i}.attn_q.weight"], heads)
        state[f"model.layers.{i}.self_attn.k_proj.weight"] = separate_pairs(stored[f"blk.{i}.attn_k.weight"], kv_heads)
    model = LlamaForCausalLM(config)
    model.load_state_dict(state)
    return model.eval()


def read_integers(count):
    """Reads i32 numbers from standard input. At its end there are fewer."""
    return np.frombuffer(sys.stdin.buffer.read(4 * count), np.int32)


@torch.no_grad()
def main(path):
    torch.set_num_threads(1)
    model = load(path)
    while len(count := read_integers(1)):
        ids = torch.from_numpy(read_integers(int(count[0])).astype(np.int64))
        sys.stdout.buffer.write(model(ids[None]).logits[0].float().numpy().tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
