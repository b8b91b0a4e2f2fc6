"""Writes the small PyTorch checkpoints of tests/py/checkpoints/. Needs torch; the tests do not.

    python tests/py/make_checkpoints.py

Their weights are multiples of 1/256 (checkpoint_weights.py), exact in every type.
"""

import os
import pickle
import types

import torch

from checkpoint_weights import GPT, LLAMA, weights

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "checkpoints")

HF = {"ln1": "input_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj", "attn.v": "self_attn.v_proj",
      "attn.o": "self_attn.o_proj", "ln2": "post_attention_layernorm", "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj",
      "mlp.down": "mlp.down_proj", "wte": "model.embed_tokens", "ln_f": "model.norm", "lm_head": "lm_head"}
LLAMA2C = {"ln1": "attention_norm", "attn.q": "attention.wq", "attn.k": "attention.wk", "attn.v": "attention.wv", "attn.o": "attention.wo",
           "ln2": "ffn_norm", "mlp.gate": "feed_forward.w1", "mlp.down": "feed_forward.w2", "mlp.up": "feed_forward.w3",
           "wte": "tok_embeddings", "ln_f": "norm", "lm_head": "output"}
NANOGPT = {"ln1": "ln_1", "attn.o": "attn.c_proj", "ln2": "ln_2", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj",
           "wte": "transformer.wte", "wpe": "transformer.wpe", "ln_f": "transformer.ln_f", "lm_head": "lm_head"}


def renamed(tensors, modules, layer, dtype=torch.float32):
    out = {}
    for name, values in tensors.items():
        stem, part = name.rsplit(".", 1)
        if stem.startswith("h."):
            _, n, module = stem.split(".", 2)
            if module not in modules:
                continue
            new = f"{layer}.{n}.{modules[module]}.{part}"
        else:
            new = f"{modules[stem]}.{part}"
        out[new] = torch.from_numpy(values).to(dtype)
    return out


def main():
    os.makedirs(HERE, exist_ok=True)
    llama = weights(LLAMA)

    # pytorch_model.bin of Hugging Face, f16, with an untied LM head and a buffer that older versions stored.
    state = renamed(llama, HF, "model.layers", torch.float16)
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    torch.save(state, f"{HERE}/hf-f16.bin")
    torch.save({k: v.bfloat16() for k, v in state.items()}, f"{HERE}/hf-bf16-legacy.bin", _use_new_zipfile_serialization=False)

    # A training checkpoint of llama2.c: compiled names, the optimizer, numbers and texts in addition to the weights; tied LM head.
    state = {f"_orig_mod.{k}": v for k, v in renamed(llama, LLAMA2C, "layers").items()}
    state["_orig_mod.output.weight"] = state["_orig_mod.tok_embeddings.weight"]
    state["_orig_mod.freqs_cos"] = state["_orig_mod.freqs_sin"] = torch.zeros(LLAMA["context"], 2)
    torch.save({
        "model": state, "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95)}]},
        "model_args": {"dim": 8, "n_layers": 2, "n_heads": 2, "n_kv_heads": 1, "vocab_size": 20, "multiple_of": 4, "max_seq_len": 24, "dropout": 0.0},
        "iter_num": 10, "best_val_loss": torch.tensor(1e9), "config": {"out_dir": "out", "compile": True},
    }, f"{HERE}/llama2c.pt")

    # nanoGPT: learned positions, LayerNorm, fused query, key and value, no gate.
    gpt = weights(GPT)
    state = renamed(gpt, NANOGPT, "transformer.h")
    for n in range(GPT["layers"]):
        for part in ("weight", "bias"):
            qkv = [torch.from_numpy(gpt[f"h.{n}.attn.{x}.{part}"]) for x in "qkv"]
            state[f"transformer.h.{n}.attn.c_attn.{part}"] = torch.cat(qkv)
    state["lm_head.weight"] = state["transformer.wte.weight"]
    torch.save({"model": state, "model_args": {"n_layer": 1, "n_head": 2, "n_embd": 12, "block_size": 10, "vocab_size": 18, "bias": True}}, f"{HERE}/nanogpt.pt")

    # pickle.dump of tensors: each storage is a torch file inside the pickle.
    with open(f"{HERE}/plain.pkl", "wb") as file:
        pickle.dump({"state_dict": {k: torch.from_numpy(v) for k, v in list(llama.items())[:3]}}, file)

    # Views into one storage, parameters, empty tensors, other types.
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    torch.save({
        "transposed": base.T, "columns": base[:, 1:5:2], "row": base[2], "parameter": torch.nn.Parameter(base + 0.5), "empty": torch.zeros(0, 3),
        "i64": torch.arange(5), "bool": torch.tensor([True, False]), "f64": torch.tensor([0.25], dtype=torch.float64), "u8": torch.arange(4, dtype=torch.uint8),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
    }, f"{HERE}/views.pt")

    # A module, which is refused, since its class would have to be imported.
    module = types.ModuleType("training_script")
    module.Model = type("Model", (torch.nn.Module,), {"__module__": "training_script"})
    import sys
    sys.modules["training_script"] = module
    torch.save(module.Model(), f"{HERE}/module.pt")


if __name__ == "__main__":
    main()
