"""Small random checkpoints and their logits (hidden states of encoders) at every position, computed by transformers and PyTorch.

    python tests/golden/make_fixtures.py [NAME…]
    python tests/golden/make_fixtures.py --short NAME POSITIONS

Writes tests/golden/fixtures/NAME/{config.json, model.safetensors, expected.json}, all of them or the given ones; --short adds short.json
to an existing checkpoint: a text of few positions, for which longrope uses other factors.
Models run in the classes of transformers; the bullet block, which no library has, is implemented below. Each feature of the families
after LLaMA is switched off once, alone: a result must change by 100 times the tolerance of the tests, otherwise the fixture would not
reveal an engine without the feature. expected.json contains these changes.
Needs torch, transformers and safetensors; the same versions on the same machine write the same files.
"""

import base64
import copy
import json
import math
import os
import platform
import re
import sys
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from transformers.pytorch_utils import Conv1D

FOLDER = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__}

LLAMAS = {
    # Grouped queries, tied LM head, f16 storage.
    "llama-gqa": (torch.float16, 20, dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                          intermediate_size=64, tie_word_embeddings=True)),
    # All biases, an untied LM head, one key-value head per query head, bf16 storage.
    "llama-biases": (torch.bfloat16, 20, dict(vocab_size=72, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
                                              intermediate_size=48, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)),
    # No size is a multiple of 8; heads are wider than hidden / heads; one key-value head; other RoPE base and epsilon.
    "llama-odd": (torch.float32, 24, dict(vocab_size=67, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1,
                                          head_dim=14, intermediate_size=50, tie_word_embeddings=False, rms_norm_eps=1e-6,
                                          rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
}

BULLETS = {
    # All biases and an untied head.
    "bullet": (torch.float32, 24, dict(vocab=80, hidden=32, heads=4, ffn=48, layers=2, context=24, tied=False), dict(attention=True, head=True)),
    # A tied LM head, odd sizes, biases in the MLP only.
    "bullet-tied": (torch.float16, 18, dict(vocab=69, hidden=30, heads=3, ffn=44, layers=2, context=32, tied=True), dict(attention=False, head=False)),
}


class BulletAttention(nn.Module):
    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=bias) for _ in range(4))

    def forward(self, x):
        n, hidden = x.shape
        q, k, v = (f(x).view(n, self.heads, hidden // self.heads).transpose(0, 1) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(1, 2) / math.sqrt(hidden // self.heads)
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
        return self.o((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, hidden))


class BulletMLP(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def forward(self, x):
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class BulletBlock(nn.Module):
    def __init__(self, hidden, heads, ffn, bias):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(hidden, eps=1e-5), nn.LayerNorm(hidden, eps=1e-5)
        self.attn, self.mlp = BulletAttention(hidden, heads, bias), BulletMLP(hidden, ffn)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Bullet(nn.Module):
    """LayerNorm before each block, learned positions, gated GELU (tanh), a last LayerNorm. Names as in docs/FORMAT.md."""

    def __init__(self, vocab, hidden, heads, ffn, layers, context, tied, attention, head):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.h = nn.ModuleList(BulletBlock(hidden, heads, ffn, attention) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden, eps=1e-5)
        self.lm_head = None if tied else nn.Linear(hidden, vocab, bias=head)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(len(ids)))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        return x @ self.wte.weight.T if self.lm_head is None else self.lm_head(x)


def randomize(model, dtype, seed):
    """Sets weights with large logits, which are exact in `dtype`."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.ndim >= 2:
                p.copy_(noise * (0.7 if "embed" in name or name.startswith("w") else 1.2 / math.sqrt(p.shape[-1])))
            else:
                is_norm = "ln" in name or "norm" in name.lower()
                p.copy_(1 + 0.2 * noise if is_norm and name.endswith("weight") else 0.2 * noise)
            p.copy_(p.to(dtype).float())


def state_of(model):
    """Returns weights by their names in files; in memory, experts are one tensor."""
    if not hasattr(model, "config") or not hasattr(model.config, "num_experts_per_tok"):
        return model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def save(name, model, dtype, ids, results, config, moved=None, states=False, renamed=lambda state: state):
    folder = f"{FOLDER}/fixtures/{name}"
    os.makedirs(folder, exist_ok=True)
    tied = config.get("tie_word_embeddings") or config.get("tied")
    weights = {k: v.to(dtype).contiguous() for k, v in renamed(state_of(model)).items() if not (tied and k == "lm_head.weight")}
    save_file(weights, f"{folder}/model.safetensors", metadata={"format": "pt"})
    values = results.detach().numpy().astype("<f4")
    expected = {"ids": ids.tolist(), "positions": values.shape[0], "hidden" if states else "vocab": values.shape[1],
                "states" if states else "logits": base64.b64encode(values.tobytes()).decode(), **({"moved_without": moved} if moved else {}), "made_with": VERSIONS}
    for file, content in {"config.json": config, "expected.json": expected}.items():
        text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", json.dumps(content, indent=1))
        with open(f"{folder}/{file}", "w", encoding="utf8") as out:
            out.write(text + "\n")
    print(f"{name}: {sum(v.numel() for v in weights.values())} parameters, {'hidden states' if states else 'logits'} {values.min():.2f} … {values.max():.2f}")


def llama(name, dtype, positions, settings, seed):
    settings = {"max_position_embeddings": 64, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2, **settings}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings, attn_implementation="eager")).eval()
    randomize(model, dtype, seed)
    ids = torch.randint(settings["vocab_size"], (positions,), generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        logits = model(ids[None], use_cache=False).logits[0].float()
    keep = {"architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "head_dim", "intermediate_size", "hidden_act", "max_position_embeddings", "rms_norm_eps", "attention_bias", "mlp_bias",
            "tie_word_embeddings", "rope_parameters", "bos_token_id", "eos_token_id"}
    config = {"architectures": ["LlamaForCausalLM"], **{k: v for k, v in model.config.to_dict().items() if k in keep and v is not None}}
    save(name, model, dtype, ids, logits, config)


def bullet(name, dtype, positions, settings, biases, seed):
    model = Bullet(**settings, **biases).eval()
    randomize(model, dtype, seed)
    ids = torch.randint(settings["vocab"], (positions,), generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        logits = model(ids)
    save(name, model, dtype, ids, logits, {"model_type": "bq4", "arch": "bullet", **settings, "norm": "layer", "norm_eps": 1e-5,
                                           "position": "learned", "activation": "gelu", "gated": True, "kv_heads": settings["heads"],
                                           "head_dim": settings["hidden"] // settings["heads"]})


TOLERANCE = 1e-3  # the tolerance of tests/js/golden.test.mjs
SHARED = {"vocab_size", "bos_token_id", "eos_token_id", "tie_word_embeddings", "model_type", "architectures"}


def zero_weights(ending):
    """Changes a model: sets parameters with this ending of their names to zero."""
    def change_model(model):
        for name, p in model.named_parameters():
            if name.endswith(ending):
                p.zero_()
    return change_model


def shifted_rows(ending):
    """Changes a model: the table with this name begins a row earlier."""
    def change_model(model):
        for name, p in model.named_parameters():
            if name.endswith(ending):
                p.copy_(p.roll(1, 0))
    return change_model


def same_norms(ending):
    """Changes a model: norms with this name have no effect."""
    def change_model(model):
        for name, module in list(model.named_modules()):
            if name.endswith(ending):
                module.forward = lambda x: x
    return change_model


def unscaled_embedding(model):
    embed = model.model.embed_tokens
    if hasattr(embed, "embed_scale"):
        embed.embed_scale = torch.tensor(1.0)
    else:
        embed.weight.div_(model.config.hidden_size**0.5)
        model.lm_head.weight = nn.Parameter(embed.weight * model.config.hidden_size**0.5)


def weights_without_one(model):
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            p.sub_(1)


def other_gelu(approximate):
    def change(model):
        for module in model.modules():
            for name in {"act_fn", "gelu_impl", "act"} & set(dict(module.named_children())):
                setattr(module, name, nn.GELU(approximate))
    return change


exact_gelu, tanh_gelu = other_gelu("none"), other_gelu("tanh")


# Family: class, storage, positions, settings, keys of config.json, ending of a parameter's name -> factor and summand, and
# features to switch off: a change of the configuration, or of a copy of the model. The relative difference of the two forms of GELU is
# largest around -2.5: biases shift the activations there, and larger weights after them compensate for the small values.
FAMILIES = {
    "gpt2": ("GPT2", torch.float16, 24, dict(vocab_size=70, n_embd=36, n_layer=2, n_head=3, n_positions=32, activation_function="gelu_new"),
             {"n_embd", "n_layer", "n_head", "n_positions", "n_inner", "activation_function", "layer_norm_epsilon"},
             {"ln_f.weight": (12.0, 0), "c_fc.bias": (1, -2.4), "mlp.c_proj.weight": (20, 0)},
             {"tanh in GELU": {"activation_function": "gelu"}, "positions": zero_weights("wpe.weight"), "bias of qkv": zero_weights("c_attn.bias"),
              "bias of mlp": zero_weights("c_fc.bias"), "scale of scores": {"scale_attn_weights": False}}),
    "neox": ("GPTNeoX", torch.float16, 24, dict(vocab_size=75, hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=80,
                                                max_position_embeddings=40, rotary_pct=0.25, hidden_act="gelu", use_parallel_residual=True,
                                                tie_word_embeddings=False, layer_norm_eps=1e-5),
             {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "rotary_pct", "rope_parameters",
              "hidden_act", "use_parallel_residual", "layer_norm_eps", "attention_bias", "rotary_emb_base"},
             {"final_layer_norm.weight": (12.0, 0), "dense_h_to_4h.bias": (1, -2.4), "dense_4h_to_h.weight": (20, 0)},
             {"parallel residual": {"use_parallel_residual": False}, "part that is rotated": {"rotary_pct": 1.0},
              "exact GELU": {"hidden_act": "gelu_new"}, "bias of qkv": zero_weights("query_key_value.bias")}),
    "neox-sequential": ("GPTNeoX", torch.bfloat16, 20, dict(vocab_size=66, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                                           max_position_embeddings=32, rotary_pct=0.5, hidden_act="gelu", use_parallel_residual=False,
                                                           tie_word_embeddings=False, layer_norm_eps=1e-5),
             {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "rotary_pct", "rope_parameters",
              "hidden_act", "use_parallel_residual", "layer_norm_eps", "attention_bias", "rotary_emb_base"},
             {"final_layer_norm.weight": (12.0, 0), "dense_h_to_4h.bias": (1, -2.4), "dense_4h_to_h.weight": (20, 0)}, {"sequential residual": {"use_parallel_residual": True}}),
    "gemma2": ("Gemma2", torch.bfloat16, 28, dict(vocab_size=90, hidden_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                                                  head_dim=12, intermediate_size=56, max_position_embeddings=48, sliding_window=5,
                                                  query_pre_attn_scalar=20, attn_logit_softcapping=5.0, final_logit_softcapping=9.0,
                                                  hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6),
               {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
                "max_position_embeddings", "sliding_window", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
                "hidden_activation", "rms_norm_eps", "rope_parameters", "layer_types", "attention_bias"},
               {"norm.weight": (1, -1)},  # these norms multiply by 1 + w
               {"window": {"sliding_window": 48}, "window of every other layer only": {"layer_types": ["sliding_attention"] * 4},
                "softcap of scores": {"attn_logit_softcapping": None}, "softcap of logits": {"final_logit_softcapping": None},
                "query_pre_attn_scalar": {"query_pre_attn_scalar": 12}, "norm after attention": same_norms("post_attention_layernorm"),
                "norm after the MLP": same_norms("post_feedforward_layernorm"), "norm before the MLP": same_norms("pre_feedforward_layernorm"),
                "scale of the embedding": unscaled_embedding, "1 + w": weights_without_one}),
    "olmo2": ("Olmo2", torch.bfloat16, 20, dict(vocab_size=68, hidden_size=36, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                                                intermediate_size=52, max_position_embeddings=32, rms_norm_eps=1e-6, tie_word_embeddings=False),
              {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "max_position_embeddings",
               "rms_norm_eps", "rope_parameters", "hidden_act", "attention_bias"},
              {}, {"norm after attention": same_norms("post_attention_layernorm"), "norm after the MLP": same_norms("post_feedforward_layernorm"),
                   "norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm")}),
}

# Usual sizes.
SMALL = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             max_position_embeddings=64, tie_word_embeddings=False)
SMALL_KEYS = {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings",
              "rms_norm_eps", "rope_parameters", "hidden_act", "attention_bias", "mlp_bias", "sliding_window", "layer_types"}
PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


# In changes of a config.json: null, where None leaves the key out.
NULL = "null"


def rope(kind, **settings):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **settings}}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=1.0)
YARN_SCALE = {"rope_parameters": {**YARN["rope_parameters"], "attention_factor": 1.0}}

# In models without biases, a common part of the embeddings shifts the gates.
BENT_GATE = {"embed_tokens.weight": (1, 1.4), "gate_proj.weight": (0.6, -0.09), "down_proj.weight": (20, 0)}

FAMILIES |= {
    # With a base of 100, slow angles change enough in 24 positions for the scaling to have an effect.
    "llama3": ("Llama", torch.float16, 24, SMALL | LLAMA3, SMALL_KEYS, {"norm.weight": (2.0, 0)},
               {"scaling of angles": PLAIN_ROPE, "angles between": rope("linear", factor=8.0)}),
    "llama-linear": ("Llama", torch.float16, 24, SMALL | rope("linear", factor=4.0), SMALL_KEYS, {}, {"scaling of angles": PLAIN_ROPE}),
    "llama-dynamic": ("Llama", torch.float16, 24, SMALL | rope("dynamic", factor=4.0), SMALL_KEYS, {}, {}),
    "mistral": ("Mistral", torch.float16, 24, SMALL | dict(sliding_window=5, head_dim=12), SMALL_KEYS, {}, {"window": {"sliding_window": None}}),
    "qwen2": ("Qwen2", torch.float16, 20, SMALL | dict(tie_word_embeddings=True), SMALL_KEYS | {"use_sliding_window", "max_window_layers"}, {},
              {"bias of q": zero_weights("q_proj.bias"), "bias of k": zero_weights("k_proj.bias"), "bias of v": zero_weights("v_proj.bias")}),
    "qwen2-yarn": ("Qwen2", torch.float16, 24, SMALL | YARN, SMALL_KEYS | {"use_sliding_window", "max_window_layers"}, {"norm.weight": (2.0, 0)},
                   {"scaling of angles": PLAIN_ROPE, "scale of rotations": YARN_SCALE}),
    "qwen3": ("Qwen3", torch.float16, 20, SMALL | dict(head_dim=16), SMALL_KEYS | {"use_sliding_window", "max_window_layers"}, {},
              {"norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm")}),
    "smollm3": ("SmolLM3", torch.float16, 20, SMALL | dict(num_hidden_layers=4, tie_word_embeddings=True, no_rope_layer_interval=4, pad_token_id=0),
                SMALL_KEYS | {"use_sliding_window", "no_rope_layers", "no_rope_layer_interval"}, {},
                {"layers without positions": {"no_rope_layers": [1, 1, 1, 1]}, "positions": {"no_rope_layers": [0, 0, 0, 0]}}),
    "granite": ("Granite", torch.float16, 20, SMALL | dict(tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6,
                                                          logits_scaling=0.7),
                SMALL_KEYS | {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}, {},
                {"scale of the embedding": {"embedding_multiplier": 1.0}, "scale of scores": {"attention_multiplier": 8**-0.5},
                 "scale of the residual": {"residual_multiplier": 1.0}, "scale of logits": {"logits_scaling": 1.0}}),
    "gemma": ("Gemma", torch.bfloat16, 20, SMALL | dict(head_dim=12, num_key_value_heads=1, tie_word_embeddings=True), SMALL_KEYS,
              {"norm.weight": (1, -1), "model.norm.weight": (1, 3.0), **BENT_GATE},
              {"tanh in GELU": exact_gelu, "scale of the embedding": unscaled_embedding, "1 + w": weights_without_one}),
    # Six layers: five local ones and a global one.
    "gemma3": ("Gemma3", torch.bfloat16, 24, SMALL | dict(num_hidden_layers=6, hidden_size=24, head_dim=12, intermediate_size=32, tie_word_embeddings=True, sliding_window=5,
                                                        query_pre_attn_scalar=12, rope_parameters={
                                                            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
                                                            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
               SMALL_KEYS | {"query_pre_attn_scalar", "hidden_activation", "attn_logit_softcapping", "final_logit_softcapping"},
               {"norm.weight": (1, -1), "model.norm.weight": (1, 9.0), **BENT_GATE},
               {"tanh in GELU": exact_gelu, "window": {"sliding_window": 64}, "the global layer": {"layer_types": ["sliding_attention"] * 6},
                "rotation of local layers": {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
                                                                 "sliding_attention": {"rope_type": "default", "rope_theta": 1e6}}},
                "scaling of angles": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                                          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
                "norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"),
                "norm after attention": same_norms("post_attention_layernorm"), "norm after the MLP": same_norms("post_feedforward_layernorm"),
                "norm before the MLP": same_norms("pre_feedforward_layernorm"), "scale of the embedding": unscaled_embedding, "1 + w": weights_without_one}),
}


def sequential_phi(model):
    """Phi with a sequential block: the MLP reads the sum after attention."""
    for layer in model.model.layers:
        def forward(x, layer=layer, **options):
            x = x + layer.self_attn(hidden_states=layer.input_layernorm(x), **options)[0]
            return x + layer.mlp(layer.input_layernorm(x))
        layer.forward = forward


def sequential_stablelm(model):
    for layer in model.model.layers:
        layer.use_parallel_residual, layer.post_attention_layernorm = False, layer.input_layernorm


def first_head_norms(model):
    for name, module in model.named_modules():
        if name.endswith("_layernorm.norms"):
            for norm in module:
                norm.weight.copy_(module[0].weight)


def sequential_falcon(model):
    for layer in model.transformer.h:
        def forward(x, layer=layer, **options):
            first = getattr(layer, "input_layernorm", None) or layer.ln_attn
            x = x + layer.self_attention(first(x), **options)[0]
            return x + layer.mlp(getattr(layer, "ln_mlp", first)(x)), None
        layer.forward = forward


def one_norm_falcon(model):
    for layer in model.transformer.h:
        layer.ln_mlp = layer.ln_attn


def unscaled_slopes(model):
    """Falcon with slopes that are added to scaled scores."""
    model.transformer.config.hidden_size = model.transformer.num_heads


def without_slopes(model):
    """BLOOM without slopes, which a function of its module computes."""
    for layer in model.transformer.h:
        attend = layer.self_attention.forward
        layer.self_attention.forward = lambda *args, attend=attend, alibi, **options: attend(*args, alibi=alibi * 0, **options)


def without_alibi(model):
    build = model.transformer.build_mpt_alibi_tensor
    model.transformer.build_mpt_alibi_tensor = lambda *args, **settings: build(*args, **settings) * 0


def long_rope(**settings):
    return rope("longrope", short_factor=[1.0, 1.5, 2.5], long_factor=[1.2, 3.0, 6.0], **settings)


# Biases shift activations to the largest difference of the two forms of GELU; see FAMILIES.
BENT_BIAS = {"dense_h_to_4h.bias": (1, -2.4), "dense_4h_to_h.weight": (20, 0)}
# In models without biases, the bias of LayerNorm or an alternating part of the embedding shifts them.
BENT_NORM = {"layernorm.bias": (1, 1.0), "ln_mlp.bias": (1, 1.0), "dense_h_to_4h.weight": (0.6, -0.07), "dense_4h_to_h.weight": (20, 0)}
BENT_EMBEDDING = {"wte.weight": (1, 0.4, "turning"), "up_proj.weight": (0.6, -0.07, "turning"), "down_proj.weight": (20, 0)}
PHI_ROPE = rope("default", partial_rotary_factor=0.5)
PHI_SIZES = SMALL | dict(num_hidden_layers=2, partial_rotary_factor=0.75)
FALCON = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, ffn_hidden_size=64)
FALCON_KEYS = {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "ffn_hidden_size", "num_kv_heads", "alibi",
               "new_decoder_architecture", "multi_query", "parallel_attn", "bias", "rope_parameters", "activation", "layer_norm_epsilon", "num_ln_in_parallel_attn"}
PHI3_KEYS = SMALL_KEYS | {"original_max_position_embeddings", "partial_rotary_factor"}

FAMILIES |= {
    "phi": ("Phi", torch.float16, 20, SMALL | PHI_ROPE | dict(num_key_value_heads=4), SMALL_KEYS | {"layer_norm_eps", "qk_layernorm", "partial_rotary_factor"},
            {"final_layernorm.weight": (12.0, 0), "fc1.bias": (1, -2.4), "fc2.weight": (20, 0)},
            {"tanh in GELU": {"hidden_act": "gelu"}, "part that is rotated": rope("default", partial_rotary_factor=1.0), "MLP beside attention": sequential_phi,
             "bias of q": zero_weights("q_proj.bias"), "bias of k": zero_weights("k_proj.bias"), "bias of v": zero_weights("v_proj.bias"), "bias of o": zero_weights("dense.bias"),
             "bias of the MLP": zero_weights("fc2.bias"), "bias of the head": zero_weights("lm_head.bias")}),
    "phi-qk-norm": ("Phi", torch.float16, 16, SMALL | PHI_ROPE | dict(qk_layernorm=True), SMALL_KEYS | {"layer_norm_eps", "qk_layernorm", "partial_rotary_factor"}, {},
                    {"norm of q": same_norms("q_layernorm"), "norm of k": same_norms("k_layernorm"), "bias of the norm of q": zero_weights("q_layernorm.bias")}),
    # Longer than the original context: all angles are divided by the second list.
    "phi3": ("Phi3", torch.float16, 24, PHI_SIZES | long_rope() | dict(original_max_position_embeddings=16, sliding_window=9, pad_token_id=0), PHI3_KEYS, {},
             {"window": {"sliding_window": None}, "scaling of angles": rope("default", partial_rotary_factor=0.75),
              "scale of rotations": long_rope(attention_factor=1.0), "angles of long texts": rope(
                  "longrope", short_factor=[1.0, 1.5, 2.5], long_factor=[1.0, 1.5, 2.5])}),
    "phi3-short": ("Phi3", torch.float16, 16, PHI_SIZES | long_rope() | dict(
        max_position_embeddings=32, original_max_position_embeddings=32, pad_token_id=0, tie_word_embeddings=True), PHI3_KEYS, {},
        {"scaling of angles": rope("default", partial_rotary_factor=0.75), "angles of short texts": rope(
            "longrope", short_factor=[1.2, 3.0, 6.0], long_factor=[1.2, 3.0, 6.0])}),
    "stablelm": ("StableLm", torch.float16, 20, SMALL | rope("default", partial_rotary_factor=0.25) | dict(use_qkv_bias=True),
                 SMALL_KEYS | {"layer_norm_eps", "use_qkv_bias", "qk_layernorm", "use_parallel_residual", "partial_rotary_factor"}, {},
                 {"part that is rotated": rope("default", partial_rotary_factor=1.0), "bias of q": zero_weights("q_proj.bias"), "bias of v": zero_weights("v_proj.bias"),
                  "bias of norms": zero_weights("layernorm.bias")}),
    "stablelm-2": ("StableLm", torch.float16, 20, SMALL | rope("default", partial_rotary_factor=0.25) | dict(use_parallel_residual=True, qk_layernorm=True),
                   SMALL_KEYS | {"layer_norm_eps", "use_qkv_bias", "qk_layernorm", "use_parallel_residual", "partial_rotary_factor"}, {},
                   {"norm of q": same_norms("q_layernorm"), "norm of k": same_norms("k_layernorm"), "weights for each head": first_head_norms,
                    "MLP beside attention": sequential_stablelm}),
    "falcon": ("Falcon", torch.float16, 20, FALCON, FALCON_KEYS, {"ln_f.weight": (12.0, 0), **BENT_NORM},
               {"exact GELU": {"activation": "gelu_new"}, "MLP beside attention": sequential_falcon}),
    "falcon-40b": ("Falcon", torch.float16, 20, FALCON | dict(new_decoder_architecture=True, num_kv_heads=2), FALCON_KEYS, {"ln_f.weight": (12.0, 0), **BENT_NORM},
                   {"exact GELU": {"activation": "gelu_new"}, "MLP beside attention": sequential_falcon, "a norm for the MLP": one_norm_falcon}),
    "falcon-rw": ("Falcon", torch.float16, 20, FALCON | dict(alibi=True, multi_query=False, parallel_attn=False, bias=True), FALCON_KEYS,
                  {"ln_f.weight": (12.0, 0), **BENT_BIAS},
                  {"exact GELU": {"activation": "gelu_new"}, "distances": {"alibi": False}, "slopes before the scale": unscaled_slopes,
                   "bias of qkv": zero_weights("query_key_value.bias"), "bias of o": zero_weights("dense.bias")}),
    # Six heads: no power of two.
    "bloom": ("Bloom", torch.float16, 20, dict(vocab_size=64, hidden_size=36, n_layer=2, n_head=6), {"hidden_size", "n_layer", "n_head", "layer_norm_epsilon"},
              {"ln_f.weight": (12.0, 0), **BENT_BIAS},
              {"distances": without_slopes, "norm of the embedding": same_norms("word_embeddings_layernorm"),
               "bias of qkv": zero_weights("query_key_value.bias"), "tanh in GELU": exact_gelu}),
    "mpt": ("Mpt", torch.float16, 20, dict(vocab_size=64, d_model=36, n_layers=2, n_heads=6, max_seq_len=48, attn_config=dict(clip_qkv=1.5)),
            {"d_model", "n_layers", "n_heads", "max_seq_len", "expansion_ratio", "attn_config", "no_bias", "layer_norm_epsilon"},
            {"norm_f.weight": (18.0, 0), **BENT_EMBEDDING},
            {"distances": without_alibi, "clipping": {"attn_config": {}},
             "exact GELU": tanh_gelu}),
    # As in published sizes, the factor of scores follows from the width of a head, since GGUF files do not contain it.
    "gemma2-heads": ("Gemma2", torch.bfloat16, 20, SMALL | dict(hidden_size=24, head_dim=12, intermediate_size=32, tie_word_embeddings=True, sliding_window=5,
                                                              query_pre_attn_scalar=12, attn_logit_softcapping=5.0, final_logit_softcapping=9.0),
                     SMALL_KEYS | {"query_pre_attn_scalar", "hidden_activation", "attn_logit_softcapping", "final_logit_softcapping"}, {"norm.weight": (1, -1)},
                     {"window": {"sliding_window": 64}, "softcap of scores": {"attn_logit_softcapping": None},
                      "softcap of logits": {"final_logit_softcapping": None}}),
    "starcoder": ("GPTBigCode", torch.float16, 20, dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32),
                  {"n_embd", "n_layer", "n_head", "n_positions", "n_inner", "activation_function", "layer_norm_epsilon", "multi_query"},
                  {"ln_f.weight": (12.0, 0), "c_fc.bias": (1, -2.4), "mlp.c_proj.weight": (20, 0)},
                  {"tanh in GELU": {"activation_function": "gelu"}, "positions": zero_weights("wpe.weight"), "bias of qkv": zero_weights("c_attn.bias")}),
    "starcoder2": ("Starcoder2", torch.float16, 20, SMALL | dict(tie_word_embeddings=True), SMALL_KEYS | {"norm_epsilon", "use_bias"},
                   {"model.norm.weight": (12.0, 0), "c_fc.bias": (1, -2.4), "mlp.c_proj.weight": (20, 0)},
                   {"tanh in GELU": {"hidden_act": "gelu"}, "bias of q": zero_weights("q_proj.bias"), "bias of o": zero_weights("o_proj.bias"), "bias of norms": zero_weights("layernorm.bias")}),
}


# Encoders, whose hidden states are compared.
ENCODERS = {
    "bert": ("Bert", torch.float16, 26, dict(vocab_size=78, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=60,
                                            max_position_embeddings=32, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=0.05),
             {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "type_vocab_size", "hidden_act",
              "layer_norm_eps", "position_embedding_type"},
             {"1.output.LayerNorm.weight": (16, 0), "intermediate.dense.bias": (1, -2.4), "output.dense.weight": (8, 0), "query.weight": (2, 0), "query.bias": (3, 0)},
             {"exact GELU": {"hidden_act": "gelu_new"}, "epsilon": {"layer_norm_eps": 1e-5}, "sight of later tokens": {"is_decoder": True},
              "positions": zero_weights("position_embeddings.weight"), "token types": zero_weights("token_type_embeddings.weight"),
              "norm of the embedding": same_norms("embeddings.LayerNorm"), "norm after attention": same_norms("attention.output.LayerNorm"),
              "norm after the MLP": same_norms("0.output.LayerNorm"), "bias of q": zero_weights("query.bias"), "bias of v": zero_weights("value.bias"),
              "bias of attention": zero_weights("attention.output.dense.bias"), "bias of mlp": zero_weights("intermediate.dense.bias")}),
    # Positions begin after the row of the padding.
    "roberta": ("Roberta", torch.float16, 24, dict(vocab_size=74, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52, pad_token_id=1,
                                                  max_position_embeddings=34, type_vocab_size=1, hidden_act="gelu", layer_norm_eps=0.05),
                {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "type_vocab_size", "hidden_act",
                 "layer_norm_eps", "pad_token_id"},
                {"1.output.LayerNorm.weight": (16, 0), "intermediate.dense.bias": (1, -2.4), "output.dense.weight": (8, 0), "query.weight": (2, 0), "query.bias": (3, 0)},
                {"exact GELU": {"hidden_act": "gelu_new"}, "sight of later tokens": {"is_decoder": True}, "positions": zero_weights("position_embeddings.weight"),
                 "the first position": shifted_rows("position_embeddings.weight"), "token types": zero_weights("token_type_embeddings.weight"),
                 "norm of the embedding": same_norms("embeddings.LayerNorm")}),
    "distilbert": ("DistilBert", torch.float16, 26, dict(vocab_size=70, dim=36, n_layers=2, n_heads=3, hidden_dim=60, max_position_embeddings=32, activation="gelu"),
                   {"dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings", "activation", "sinusoidal_pos_embds"},
                   {"1.output_layer_norm.weight": (16, 0), "ffn.lin1.bias": (1, -2.4), "ffn.lin2.weight": (8, 0), "q_lin.weight": (2, 0), "q_lin.bias": (3, 0)},
                   {"exact GELU": {"activation": "gelu_new"}, "positions": zero_weights("position_embeddings.weight"), "norm of the embedding": same_norms("embeddings.LayerNorm"),
                    "norm after attention": same_norms("sa_layer_norm"), "norm after the MLP": same_norms("0.output_layer_norm"), "bias of q": zero_weights("q_lin.bias"),
                    "bias of attention": zero_weights("out_lin.bias"), "bias of mlp": zero_weights("lin1.bias")}),
    "nomic-bert": ("NomicBert", torch.float16, 26, dict(vocab_size=72, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52,
                                                       max_position_embeddings=32, type_vocab_size=2, layer_norm_eps=0.05),
                   {"type_vocab_size"},
                   {"1.post_mlp_layernorm.weight": (16, 0), "gate_proj.weight": (2, 0), "down_proj.weight": (8, 0), "q_proj.weight": (3, 0)},
                   {"gate": {"hidden_act": "gelu"}, "base of angles": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
                    "token types": zero_weights("token_type_embeddings.weight"), "norm of the embedding": same_norms("embeddings.LayerNorm"),
                    "norm after attention": same_norms("post_attention_layernorm"), "norm after the MLP": same_norms("0.post_mlp_layernorm"),
                    "epsilon": {"layer_norm_eps": 1e-5}}),
    # Five of six layers have windows of three tokens on each side.
    "gemma-embedding": ("Gemma3Text", torch.bfloat16, 24, dict(vocab_size=64, hidden_size=24, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                                                             intermediate_size=32, max_position_embeddings=64, sliding_window=6, query_pre_attn_scalar=12,
                                                             use_bidirectional_attention=True, rope_parameters={
                                                                 "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                                                 "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
                        SMALL_KEYS | {"query_pre_attn_scalar", "hidden_activation", "use_bidirectional_attention"},
                        {"norm.weight": (1, -1), "q_norm.weight": (1, 2.0), "post_attention_layernorm.weight": (1, 2.0)},
                        {"window": {"sliding_window": 128}, "a window by one": {"sliding_window": 8}, "the global layer": {"layer_types": ["sliding_attention"] * 6},
                         "sight of later tokens": {"use_bidirectional_attention": False}, "norm of q": same_norms("q_norm"),
                         "norm after attention": same_norms("post_attention_layernorm"), "1 + w": weights_without_one}),
    "modern-bert": ("ModernBert", torch.float16, 26, dict(vocab_size=72, hidden_size=36, num_hidden_layers=4, num_attention_heads=3, intermediate_size=52,
                                                         max_position_embeddings=32, local_attention=8, norm_eps=0.05, pad_token_id=0, rope_parameters={
                                                             "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
                                                             "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
                    {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "local_attention", "norm_eps", "norm_bias",
                     "attention_bias", "mlp_bias", "hidden_activation", "rope_parameters", "layer_types", "pad_token_id"},
                    {"final_norm.weight": (8, 0), "tok_embeddings.weight": (1, 0.8, "turning"), "Wi.weight": (0.6, -0.07, "turning"), "mlp.Wo.weight": (8, 0)},
                    {"exact GELU": {"hidden_activation": "gelu_new"}, "window": {"local_attention": 64}, "a window by one": {"local_attention": 10},
                     "the second global layer": {"layer_types": ["full_attention"] + ["sliding_attention"] * 3},
                     "rotation of local layers": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 160000.0},
                                                                      "sliding_attention": {"rope_type": "default", "rope_theta": 160000.0}}},
                     "norm of the embedding": same_norms("embeddings.norm"), "norm before attention": same_norms("attn_norm"), "norm before the MLP": same_norms("mlp_norm"),
                     "epsilon": {"norm_eps": 1e-5}}),
    # More positions than buckets of biases.
    "mpnet": ("MPNet", torch.float16, 150, dict(vocab_size=70, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=36, pad_token_id=1,
                                               max_position_embeddings=154, hidden_act="gelu", layer_norm_eps=0.05, relative_attention_num_buckets=32),
              {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "hidden_act", "layer_norm_eps", "pad_token_id",
               "relative_attention_num_buckets"},
              {"1.output.LayerNorm.weight": (16, 0), "intermediate.dense.bias": (1, -2.4), "output.dense.weight": (8, 0), "attn.q.weight": (2, 0), "attn.q.bias": (3, 0),
               "relative_attention_bias.weight": (3, 0)},
              {"exact GELU": {"hidden_act": "gelu_new"}, "biases of distances": zero_weights("relative_attention_bias.weight"), "order of buckets": shifted_rows("relative_attention_bias.weight"),
               "positions": zero_weights("position_embeddings.weight"), "the first position": shifted_rows("position_embeddings.weight"),
               "norm of the embedding": same_norms("embeddings.LayerNorm"), "norm after attention": same_norms("attention.LayerNorm")}),
}


def nomic_names(state):
    """Renames weights like published checkpoints of nomic-embed-text: q, k and v one after another in one tensor."""
    out = {}
    for name, value in state.items():
        if name.startswith("pooler.") or ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            value = torch.cat([state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")])
        for new, old in (("layers.", "encoder.layers."), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.q_proj", "attn.Wqkv"), ("self_attn.o_proj", "attn.out_proj"),
                         ("mlp.up_proj", "mlp.fc11"), ("mlp.gate_proj", "mlp.fc12"), ("mlp.down_proj", "mlp.fc2"), ("post_attention_layernorm", "norm1"),
                         ("post_mlp_layernorm", "norm2")):
            name = name.replace(new, old)
        out[name] = value.contiguous()
    return out


def shifted_taps(model):
    """Changes a model: convolutions read one position earlier."""
    for name, p in model.named_parameters():
        if name.endswith("conv.conv.weight"):
            p.copy_(torch.cat([p[..., 1:], torch.zeros_like(p[..., :1])], -1))


def same_norms_gated(ending):
    """Changes a model: gated norms with this name only multiply by the gate."""
    def change_model(model):
        for name, module in list(model.named_modules()):
            if name.endswith(ending):
                module.forward = lambda x, gate: x * F.silu(gate)
    return change_model


def first_taps_zeroed(model):
    """Changes a model: convolutions ignore their oldest position."""
    for name, p in model.named_parameters():
        if name.endswith("conv.conv.weight"):
            p[..., 0] = 0


# Recurrent layers. More positions than a block of the KV cache would need a large file; C tests cover several blocks.
RECURRENT = {
    "lfm2": ("Lfm2", torch.float16, 40, dict(vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=60,
                                             block_multiple_of=16, block_ffn_dim_multiplier=1.2, max_position_embeddings=64, tie_word_embeddings=True, conv_L_cache=3,
                                             layer_types=["conv", "conv", "full_attention", "conv"]),
             SMALL_KEYS | {"norm_eps", "conv_L_cache", "conv_bias", "block_multiple_of", "block_ffn_dim_multiplier", "block_auto_adjust_ff_dim"}, {"conv.conv.weight": (3.0, 0)},
             {"norm of q": same_norms("q_layernorm"), "norm of k": same_norms("k_layernorm"), "convolutions": zero_weights("conv.conv.weight"),
              "order of taps": shifted_taps, "oldest tap": first_taps_zeroed, "base of angles": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}}),
    # Two value heads for each key head; a quarter of a head is rotated. f32, since the converter of GGUF computes exp(A_log) in the type of the file.
    "qwen35": ("Qwen3_5", torch.float32, 40, dict(vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                                  intermediate_size=48, max_position_embeddings=64, tie_word_embeddings=True, linear_num_key_heads=2,
                                                  linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=16, linear_conv_kernel_dim=4,
                                                  rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0]},
                                                  layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"]),
               SMALL_KEYS | {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "partial_rotary_factor"},
               {"dt_bias": (1.0, 0), "conv1d.weight": (3.0, 0)},
               {"norm of q": same_norms("q_norm"), "decay": zero_weights("A_log"), "step bias": zero_weights("dt_bias"), "beta": zero_weights("in_proj_b.weight"),
                "alpha": zero_weights("in_proj_a.weight"), "gate": zero_weights("in_proj_z.weight"), "convolutions": zero_weights("conv1d.weight"),
                "norm of the result": same_norms_gated("linear_attn.norm"), "positions": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0]}}}),
}

def with_attributes(ending, **values):
    """Changes a model: sets attributes of modules with this name."""
    def change_model(model):
        for name, module in model.named_modules():
            if name.endswith(ending):
                for key, value in values.items():
                    setattr(module, key, value)
    return change_model


def other_layer_scale(model):
    for module in model.modules():
        if hasattr(module, "layer_scalar"):
            module.layer_scalar.fill_(1.0)


def own_table_only(model):
    """Per-layer embeddings without the projection of the embedding."""
    model.model.per_layer_projection_norm.weight.zero_()


def without_table(model):
    model.model.embed_tokens_per_layer.weight.zero_()


GEMMA4_ROPE = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000.0},
               "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}


def gemma4_rope(kind, **changes):
    return {"rope_parameters": {**GEMMA4_ROPE, kind: {**GEMMA4_ROPE[kind], **changes}}}


GEMMA4 = dict(vocab_size=64, vocab_size_per_layer_input=64, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8, global_head_dim=16,
              intermediate_size=40, max_position_embeddings=64, tie_word_embeddings=True, sliding_window=5, rope_parameters=GEMMA4_ROPE, final_logit_softcapping=12.0)
GEMMA4_KEYS = SMALL_KEYS | {"hidden_activation", "final_logit_softcapping", "vocab_size_per_layer_input", "hidden_size_per_layer_input", "attention_k_eq_v",
                            "num_kv_shared_layers", "enable_moe_block", "use_double_wide_mlp", "per_layer_config"}
SLIDES, SEES = "sliding_attention", "full_attention"
GEMMA4_WITHOUT = {"norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "norm of v": same_norms("v_norm"),
                  "scale of scores": with_attributes("self_attn", scaling=16**-0.5), "factor of layers": other_layer_scale,
                  "scale of the embedding": unscaled_embedding, "softcap": {"final_logit_softcapping": None}, "window": {"sliding_window": 64},
                  "part that is rotated": gemma4_rope("full_attention", partial_rotary_factor=1.0), "base of local angles": gemma4_rope("sliding_attention", rope_theta=1e4),
                  "base of global angles": gemma4_rope("full_attention", rope_theta=4.0), "norm after attention": same_norms("post_attention_layernorm"),
                  "norm after the MLP": same_norms("post_feedforward_layernorm"), "norm before the MLP": same_norms("pre_feedforward_layernorm")}
GEMMA4_TUNED = {"q_norm.weight": (1.0, 1.0), "k_norm.weight": (1.0, 0.5)}
RECURRENT |= {
    # As E2B and E4B: per-layer embeddings, and last layers that use keys and values of earlier ones.
    "gemma4": ("Gemma4", torch.float32, 24, GEMMA4 | dict(num_hidden_layers=6, layer_types=[SLIDES, SEES, SLIDES, SEES, SLIDES, SEES], num_kv_shared_layers=3,
                                                          use_double_wide_mlp=True, hidden_size_per_layer_input=8), GEMMA4_KEYS, GEMMA4_TUNED,
               {**GEMMA4_WITHOUT, "table of per-layer embeddings": without_table, "projection of the embedding": own_table_only,
                "norm of the projection": same_norms("per_layer_projection_norm"), "gate": zero_weights("per_layer_input_gate.weight"),
                "norm of per-layer embeddings": same_norms("post_per_layer_input_norm"),
                "per-layer embeddings": zero_weights("per_layer_projection.weight")}),
    # As the larger models: keys are also the values, and global layers have fewer key-value heads.
    "gemma4-keys": ("Gemma4", torch.float32, 24, GEMMA4 | dict(num_hidden_layers=6, num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0),
                    GEMMA4_KEYS, GEMMA4_TUNED, GEMMA4_WITHOUT),
}



def unscaled_first(model):
    model.embed_tokens.embed_scale = torch.tensor(1.0)


def without_later_tokens(model):
    """Changes an encoder to a decoder without windows."""
    forward = model.forward

    def causal(ids, **options):
        hidden = torch.full((ids.shape[1],) * 2, -math.inf).triu(1)[None, None]
        return forward(ids, attention_mask={SLIDES: hidden, SEES: hidden}, **options)
    model.forward = causal


EMBEDDING_GEMMA2_ROPE = {SEES: {"rope_type": "default", "rope_theta": 1000.0}, SLIDES: {"rope_type": "default", "rope_theta": 100.0}}
# The layers of Gemma 4 in an encoder; every second layer has a window of three tokens on each side. Names of tensors have no prefix.
ENCODERS |= {
    "embedding-gemma2": ("EmbeddingGemma2Text", torch.float32, 24, dict(
        vocab_size=64, hidden_size=24, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=32, max_position_embeddings=64,
        sliding_window=3, layer_types=[SLIDES, SEES, SLIDES, SEES], hidden_size_per_layer_input=8, embedding_dim=40, rope_parameters=EMBEDDING_GEMMA2_ROPE,
        per_layer_config={1: dict(head_dim=16, num_key_value_heads=1), 3: dict(head_dim=16, num_key_value_heads=1)}),
        SMALL_KEYS | {"hidden_activation", "hidden_size_per_layer_input", "embedding_dim", "per_layer_config"}, {"q_norm.weight": (1.0, 1.0), "k_norm.weight": (1.0, 0.5)},
        {"window": {"sliding_window": 64}, "a window by one": {"sliding_window": 4},
         "sight of later tokens": without_later_tokens, "norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "norm of v": same_norms("v_norm"),
         "scale of scores": with_attributes("self_attn", scaling=16**-0.5), "factor of layers": other_layer_scale, "scale of the embedding": unscaled_first,
         "base of local angles": {"rope_parameters": {**EMBEDDING_GEMMA2_ROPE, SLIDES: {"rope_type": "default", "rope_theta": 1e4}}},
         "base of global angles": {"rope_parameters": {**EMBEDDING_GEMMA2_ROPE, SEES: {"rope_type": "default", "rope_theta": 4.0}}},
         "norm after attention": same_norms("post_attention_layernorm"), "norm after the MLP": same_norms("post_feedforward_layernorm"),
         "norm before the MLP": same_norms("pre_feedforward_layernorm"), "per-layer embeddings": zero_weights("ple_block.per_layer_projection.weight"),
         "norm of the projection": same_norms("per_layer_projection_norm"), "gate": zero_weights("per_layer_input_gate.weight"),
         "norm of per-layer embeddings": same_norms("post_per_layer_input_norm"), "the last projection": zero_weights("embedding_projection.weight")}),
}

# Encoders whose files differ from transformers: keys of config.json, and names of weights.
RENAMED = {
    "nomic-bert": (dict(n_embd=36, n_head=3, n_layer=2, n_inner=52, n_positions=32, layer_norm_epsilon=0.05, activation_function="swiglu", rotary_emb_base=1000,
                        rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None, rotary_scaling_factor=None, qkv_proj_bias=False,
                        mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, parallel_block=False, use_rms_norm=False, causal=False), nomic_names),
}


def attention_of(cls):
    """Falcon's eager attention adds the slopes twice: in the mask and to the scores."""
    return "sdpa" if "Falcon" in cls[0].__name__ else "eager"


def alternating(p, summand):
    """Adds a part with one sign in even columns and the other in odd ones, which LayerNorm keeps."""
    return summand * (1 - 2 * (torch.arange(p.shape[-1]) % 2))


EXPERTS = dict(vocab_size=66, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=48,
               tie_word_embeddings=False)
EXPERTS_KEYS = {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings",
                "rms_norm_eps", "rope_parameters", "hidden_act", "sliding_window", "use_sliding_window", "num_local_experts", "num_experts",
                "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size", "norm_topk_prob", "decoder_sparse_step",
                "mlp_only_layers", "qkv_bias"}
# Mixtures of experts.
ROUTED = {
    "mixtral": ("Mixtral", torch.bfloat16, 20, EXPERTS | dict(intermediate_size=24, num_local_experts=5, num_experts_per_tok=2), EXPERTS_KEYS, {},
                {"the second expert": {"num_experts_per_tok": 1}, "the choice": zero_weights("mlp.gate.weight"), "experts": zero_weights("down_proj")}),
    "qwen2moe": ("Qwen2Moe", torch.bfloat16, 20, EXPERTS | dict(intermediate_size=64, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
                                                                shared_expert_intermediate_size=40, norm_topk_prob=False), EXPERTS_KEYS, {},
                 {"weights of all experts": {"norm_topk_prob": True}, "the third expert": {"num_experts_per_tok": 2}, "the shared expert": zero_weights("shared_expert.down_proj.weight"),
                  "its switch": zero_weights("shared_expert_gate.weight"), "bias of qkv": zero_weights("proj.bias")}),
    "qwen3moe": ("Qwen3Moe", torch.bfloat16, 20, EXPERTS | dict(head_dim=10, intermediate_size=64, num_experts=8, num_experts_per_tok=4, moe_intermediate_size=16,
                                                                norm_topk_prob=True), EXPERTS_KEYS, {},
                 {"the sum of weights": {"norm_topk_prob": False}, "norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "the fourth expert": {"num_experts_per_tok": 3}}),
}

LISTED_KEYS = {"use_sliding_window", "max_window_layers", "no_rope_layers", "query_pre_attn_scalar", "hidden_activation"}
FULL, LOCAL = "full_attention", "sliding_attention"
GEMMA3_ROPE = {FULL: {"rope_type": "default", "rope_theta": 1e6}, LOCAL: {"rope_type": "default", "rope_theta": 1e4}}
# Layers differ without a period.
LISTED = {
    "gemma3-listed": ("Gemma3", torch.bfloat16, 20, SMALL | dict(
        num_hidden_layers=5, hidden_size=24, head_dim=8, intermediate_size=32, tie_word_embeddings=True, sliding_window=5, query_pre_attn_scalar=8,
        layer_types=[FULL, LOCAL, LOCAL, FULL, LOCAL], rope_parameters=GEMMA3_ROPE), SMALL_KEYS | LISTED_KEYS,
        {"norm.weight": (1, -1), "model.norm.weight": (1, 1.0)},
        {"the first global layer": {"layer_types": [LOCAL, LOCAL, LOCAL, FULL, LOCAL]}, "the second global layer": {"layer_types": [FULL, LOCAL, LOCAL, LOCAL, LOCAL]},
         "a local layer": {"layer_types": [FULL, LOCAL, FULL, FULL, LOCAL]}}),
    "qwen2-listed": ("Qwen2", torch.float16, 20, SMALL | dict(num_hidden_layers=4, hidden_size=24, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
                                                             max_window_layers=2), SMALL_KEYS | LISTED_KEYS, {"norm.weight": (2.0, 0)},
                     {"windows": {"max_window_layers": 4}, "layers without": {"max_window_layers": 0}, "the second without": {"max_window_layers": 1},
                      "the first with": {"max_window_layers": 3}}),
    "smollm3-listed": ("SmolLM3", torch.float16, 20, SMALL | dict(num_hidden_layers=4, hidden_size=24, tie_word_embeddings=True, no_rope_layers=[0, 1, 0, 0],
                                                                 use_sliding_window=True, sliding_window=6, pad_token_id=0),
                       SMALL_KEYS | LISTED_KEYS, {"norm.weight": (2.0, 0)},
                       {"the first without positions": {"no_rope_layers": [1, 1, 0, 0], "layer_types": [LOCAL, FULL, LOCAL, LOCAL]},
                        "the last without positions": {"no_rope_layers": [0, 1, 0, 1], "layer_types": [LOCAL, FULL, LOCAL, LOCAL]},
                        "positions": {"no_rope_layers": [0, 0, 0, 0], "layer_types": [LOCAL, FULL, LOCAL, LOCAL]},
                        "the last window": {"layer_types": [LOCAL, FULL, LOCAL, FULL]}, "windows": {"use_sliding_window": False}}),
    "qwen2moe-dense": ("Qwen2Moe", torch.bfloat16, 20, EXPERTS | dict(
        num_hidden_layers=4, hidden_size=24, intermediate_size=40, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
        shared_expert_intermediate_size=24, decoder_sparse_step=2, mlp_only_layers=[1]), EXPERTS_KEYS, {},
        {"the third expert": {"num_experts_per_tok": 2}, "the shared expert": zero_weights("shared_expert.down_proj.weight"),
         "the first MLP": zero_weights("layers.0.mlp.down_proj.weight"), "the third MLP": zero_weights("layers.2.mlp.down_proj.weight")}),
    "qwen3moe-dense": ("Qwen3Moe", torch.bfloat16, 20, EXPERTS | dict(
        num_hidden_layers=4, hidden_size=24, head_dim=8, intermediate_size=40, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16,
        norm_topk_prob=True, mlp_only_layers=[1, 2]), EXPERTS_KEYS, {},
        {"the second expert": {"num_experts_per_tok": 1}, "the first experts": zero_weights("layers.0.mlp.experts.down_proj"),
         "the last experts": zero_weights("layers.3.mlp.experts.down_proj"), "the first MLP": zero_weights("layers.1.mlp.down_proj.weight")}),
}


def by_names(*changes):
    """Renames tensors; None: removes them."""
    def rename(name):
        for pattern, to in changes:
            if re.search(pattern, name):
                if to is None:
                    return None
                name = re.sub(pattern, to, name)
        return name
    return lambda state: {rename(name): p for name, p in state.items() if rename(name)}


def internlm2_names(state):
    """Renames weights like InternLM2: for each group of heads its queries, its key and its value in one tensor."""
    qkv, out = {}, {}
    for name, p in state.items():
        if match := re.match(r"(model\.layers\.\d+)\.self_attn\.([qkv])_proj", name):
            qkv.setdefault(match[1], {})[match[2]] = p
        else:
            out[name] = p
    for layer, of in qkv.items():
        groups, hidden = 2, of["q"].shape[1]
        parts = [of[which].reshape(groups, -1, hidden) for which in "qkv"]
        out[f"{layer}.attention.wqkv.weight"] = torch.cat(parts, 1).reshape(-1, hidden)
    return by_names(("embed_tokens", "tok_embeddings"), ("lm_head", "output"), (r"self_attn\.o_proj", "attention.wo"), ("input_layernorm", "attention_norm"),
                    ("post_attention_layernorm", "ffn_norm"), (r"mlp\.gate_proj", "feed_forward.w1"), (r"mlp\.up_proj", "feed_forward.w3"),
                    (r"mlp\.down_proj", "feed_forward.w2"))(out)


EXAONE_NAMES = by_names((r"^model\.", "transformer."), ("embed_tokens", "wte"), (r"layers\.", "h."), ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"),
                        (r"self_attn\.o_proj", "attn.attention.out_proj"), ("self_attn", "attn.attention"), ("gate_proj", "c_fc_0"), ("up_proj", "c_fc_1"),
                        ("down_proj", "c_proj"), (r"transformer\.norm", "transformer.ln_f"))
ONLY_TEXT = by_names(("visual", None))
OLMO3_YARN = {FULL: {**YARN["rope_parameters"], "attention_factor": 0.1 * math.log(4.0) + 1}, LOCAL: {"rope_type": "default", "rope_theta": 10000.0}}
MINISTRAL_YARN = {**YARN["rope_parameters"], "original_max_position_embeddings": 32, "beta_fast": 8.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
FACTORS = {"scale of the embedding": {"embedding_multiplier": 1.0}, "scale of the residual": {"residual_multiplier": 1.0}, "scale of logits": {"logits_scaling": 1.0}}
TINY = {**SMALL, "vocab_size": 32, "hidden_size": 24, "intermediate_size": 24}
SEEING = dict(vision_config=dict(depth=1, hidden_size=32, embed_dim=32, num_heads=2, intermediate_size=32, out_hidden_size=24))


def plain_rope(kind, sections):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, "mrope_section": sections}}


# Files that differ from the model that was computed: the class has the same mathematics with other names (InternLM 2, EXAONE 3 and MiniCPM
# are in no library), or the model has a vision encoder that is left out. Changes of config.json, or a function of them; other names.
LENT = {
    "olmo3": (("Olmo3", torch.bfloat16, 24, TINY | dict(num_hidden_layers=4, rms_norm_eps=1e-6, sliding_window=5,
                                                        rope_parameters=OLMO3_YARN), SMALL_KEYS, {"norm.weight": (2.0, 0)},
               {"window": {"sliding_window": 64}, "the global layer": {"layer_types": [LOCAL] * 4}, "windows in other layers": {"layer_types": [FULL] + [LOCAL] * 3},
                "scaling of angles": {"rope_parameters": {**OLMO3_YARN, FULL: OLMO3_YARN[LOCAL]}},
                "scaling of global layers alone": {"rope_parameters": {FULL: OLMO3_YARN[FULL], LOCAL: OLMO3_YARN[FULL]}},
                "norm after attention": same_norms("post_attention_layernorm"), "norm of q": same_norms("q_norm")}), {}, None),
    "granitemoe": (("GraniteMoe", torch.float16, 20, EXPERTS | TINY | dict(
        intermediate_size=16, num_local_experts=5, num_experts_per_tok=2, tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.2,
        residual_multiplier=0.6, logits_scaling=0.7), EXPERTS_KEYS | {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}, {},
        FACTORS | {"scale of scores": {"attention_multiplier": 8**-0.5}, "the second expert": {"num_experts_per_tok": 1}}), {}, None),
    "ernie4_5": (("Ernie4_5", torch.bfloat16, 20, TINY | dict(head_dim=12, tie_word_embeddings=True), SMALL_KEYS | {"use_bias"}, {"norm.weight": (2.0, 0)},
                  {"positions": rope("default") | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e9}}}), {}, None),
    "exaone": (("Llama", torch.float16, 24, TINY | LLAMA3, SMALL_KEYS, {"norm.weight": (2.0, 0)}, {"scaling of angles": PLAIN_ROPE}),
               {"architectures": ["ExaoneForCausalLM"], "model_type": "exaone", "num_layers": 2, "num_hidden_layers": None, "activation_function": "silu", "hidden_act": None,
                "layer_norm_epsilon": 1e-6, "rms_norm_eps": None, "mlp_bias": None, "attention_bias": None}, EXAONE_NAMES),
    "internlm2": (("Llama", torch.bfloat16, 20, TINY, SMALL_KEYS, {"norm.weight": (2.0, 0)}, {"positions": rope("linear", factor=1000.0)}),
                  {"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "bias": False, "mlp_bias": None, "attention_bias": None}, internlm2_names),
    "minicpm": (("Granite", torch.float16, 20, TINY | dict(embedding_multiplier=3.0, attention_multiplier=6**-0.5, residual_multiplier=0.7 / math.sqrt(2), logits_scaling=2.0),
                 SMALL_KEYS, {"norm.weight": (2.0, 0)}, {**FACTORS, "scale of logits": {"logits_scaling": 1.0}}),
                {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "scale_emb": 3.0, "scale_depth": 0.7, "dim_model_base": 12, "mlp_bias": None,
                 "attention_bias": None}, None),
    "ministral3": (("Ministral3", torch.bfloat16, 24, TINY | dict(head_dim=12, max_position_embeddings=128, rope_parameters=MINISTRAL_YARN), SMALL_KEYS, {"norm.weight": (2.0, 0)},
                    {"scaling of angles": {"rope_parameters": {**MINISTRAL_YARN, "factor": 1.0}},
                     "no scale of rotations": {"rope_parameters": {k: v for k, v in MINISTRAL_YARN.items() if k != "mscale_all_dim"}}}), {}, None),
    "qwen2vl": (("Qwen2VLForConditionalGeneration Qwen2VLConfig", torch.float16, 20, dict(
        text_config=TINY | plain_rope("default", [1, 1, 1]), **SEEING), {"text_config"}, {},
        {"bias of q": zero_weights("q_proj.bias"), "bias of k": zero_weights("k_proj.bias"), "bias of v": zero_weights("v_proj.bias")}), {}, ONLY_TEXT),
    "qwen3vl": (("Qwen3VLForConditionalGeneration Qwen3VLConfig", torch.bfloat16, 20, dict(
        text_config=TINY | dict(head_dim=12) | plain_rope("default", [2, 2, 2]), vision_config=SEEING["vision_config"] | dict(deepstack_visual_indexes=[0])), {"text_config"}, {},
        {"norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm")}), {}, ONLY_TEXT),
}


def zeroed_rows(ending, rows):
    """Changes a model: sets these rows of parameters with this ending of their names to zero."""
    def change_model(model):
        for name, p in model.named_parameters():
            if name.endswith(ending):
                p[rows] = 0
    return change_model


def one_group(model):
    """Changes a model: norms of Mamba-2 have a single group of heads."""
    for module in model.modules():
        if hasattr(module, "group_size"):
            module.group_size = module.weight.numel()
        if hasattr(module, "norm_before_gate"):
            module.n_groups = 1


# Mamba-2: 40 positions are three chunks of transformers. f32, as above.
MAMBA_KEYS = SMALL_KEYS | {f"mamba_{key}" for key in ("n_heads", "n_groups", "d_state", "d_head", "d_conv", "d_ssm", "expand", "conv_bias", "proj_bias", "rms_norm",
                                                     "norm_before_gate")} | {"layer_types"}
GRANITE_KEYS = MAMBA_KEYS | EXPERTS_KEYS | {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "shared_intermediate_size",
                                            "position_embedding_type"}
FALCON_KEYS = MAMBA_KEYS | {f"{key}_multiplier" for key in ("lm_head", "embedding", "key", "attention_out", "attention_in", "ssm_in", "ssm_out")} | {
    "mlp_multipliers", "ssm_multipliers"}
MIXER = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=16, mamba_d_conv=4, mamba_chunk_size=16)
GRANITE = SMALL | MIXER | dict(
    vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, mamba_expand=2,
    embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=0.7, tie_word_embeddings=True,
    layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])
FALCON = SMALL | MIXER | dict(
    vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=40, max_position_embeddings=64,
    mamba_d_ssm=64, mamba_n_groups=2, lm_head_multiplier=0.6, embedding_multiplier=2.5, key_multiplier=1.6, attention_out_multiplier=0.7, attention_in_multiplier=1.3,
    ssm_in_multiplier=0.8, ssm_out_multiplier=1.4, mlp_multipliers=[1.5, 0.6], ssm_multipliers=[0.7, 1.4, 0.6, 1.5, 1.7])
LIVELY = {"dt_bias": (1.0, -0.5), ".D": (1.0, 1.0), "conv1d.bias": (2.0, 0), "A_log": (2.0, 0)}
WITHOUT = {"decay": zero_weights("A_log"), "step bias": zero_weights("dt_bias"), "skip": zero_weights(".D"), "bias of convolutions": zero_weights("conv1d.bias"),
           "convolutions": zero_weights("conv1d.weight"), "gate": zeroed_rows("in_proj.weight", slice(0, 64)), "x": zeroed_rows("in_proj.weight", slice(64, 128)),
           "step": zeroed_rows("in_proj.weight", slice(-8, None))}


def without_factor(key, i=None):
    value = FALCON[key]
    return {key: 1.0 if i is None else [1.0 if k == i else factor for k, factor in enumerate(value)]}


RECURRENT |= {
    "granite-hybrid": ("GraniteMoeHybrid", torch.float32, 40, GRANITE | dict(mamba_n_groups=2, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40),
                       GRANITE_KEYS, LIVELY,
                       {**FACTORS, "scale of scores": {"attention_multiplier": 8**-0.5}, **WITHOUT, "norm of the result": same_norms_gated("mamba.norm"),
                        "groups of the norm": one_group, "no positions": {"position_embedding_type": "rope"}}),
    "granite-hybrid-moe": ("GraniteMoeHybrid", torch.float32, 40, GRANITE | dict(
        mamba_n_groups=1, num_local_experts=5, num_experts_per_tok=2, intermediate_size=16, shared_intermediate_size=24), GRANITE_KEYS, LIVELY,
        {**FACTORS, "the second expert": {"num_experts_per_tok": 1}, "the shared expert": zero_weights("shared_mlp.output_linear.weight"), "no positions": {"position_embedding_type": "rope"},
         "Mamba-2": zero_weights("mamba.out_proj.weight"), "attention": zero_weights("o_proj.weight")}),
    "granite-hybrid-rope": ("GraniteMoeHybrid", torch.float32, 40, GRANITE | dict(
        num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], mamba_n_groups=1, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=24,
        position_embedding_type="rope"), GRANITE_KEYS, LIVELY, {"positions": {"position_embedding_type": None}, "Mamba-2": zero_weights("mamba.out_proj.weight")}),
    "falcon-h1": ("FalconH1", torch.float32, 40, FALCON, FALCON_KEYS, LIVELY,
                  {**WITHOUT, **{key: without_factor(key) for key in sorted(FALCON) if key.endswith("_multiplier")},
                   "factor of the gate": without_factor("mlp_multipliers", 0), "factor of the MLP": without_factor("mlp_multipliers", 1),
                   **{f"factor of {feature}": without_factor("ssm_multipliers", i) for i, feature in enumerate(("z", "x", "B", "C", "the step"))},
                   "Mamba-2": zero_weights("mamba.out_proj.weight"), "attention": zero_weights("o_proj.weight")}),
    "falcon-h1-norm": ("FalconH1", torch.float32, 40, FALCON | dict(mamba_rms_norm=True, mamba_norm_before_gate=False), FALCON_KEYS, LIVELY,
                       {"order of norm and gate": {"mamba_norm_before_gate": True}, "groups of the norm": one_group}),
    "falcon-h1-normed": ("FalconH1", torch.float32, 40, FALCON | dict(mamba_rms_norm=True, mamba_norm_before_gate=True), FALCON_KEYS, LIVELY,
                         {"order of norm and gate": {"mamba_norm_before_gate": False}, "groups of the norm": one_group}),
    "mamba2": ("Mamba2", torch.float32, 40, dict(vocab_size=64, hidden_size=32, num_hidden_layers=3, expand=2, num_heads=8, head_dim=8, n_groups=2, state_size=16,
                                                 conv_kernel=4, chunk_size=16),
               {"hidden_size", "num_hidden_layers", "expand", "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel", "use_bias", "use_conv_bias", "hidden_act",
                "layer_norm_epsilon"}, LIVELY,
               {**WITHOUT, "norm of the result": same_norms_gated("mixer.norm"), "groups of the norm": one_group}),
}


def unbiased_choice(model):
    for module in model.modules():
        if hasattr(module, "expert_bias"):
            module.expert_bias.zero_()


def biased_weights(model):
    """Changes a model: biases of experts also change their weights."""
    for module in model.modules():
        if hasattr(module, "expert_bias"):
            def forward(x, bias, gate=module.gate):
                scores = F.linear(x, gate.weight).sigmoid() + bias
                weights, chosen = torch.topk(scores, k=gate.top_k, dim=-1)
                return scores, weights / weights.sum(-1, keepdim=True), chosen
            module.gate.forward = forward


def softmax_weights(model):
    for module in model.modules():
        if hasattr(module, "expert_bias"):
            def forward(x, bias, gate=module.gate):
                logits = F.linear(x, gate.weight)
                chosen = torch.topk(logits.sigmoid() + bias, k=gate.top_k, dim=-1)[1]
                return logits, torch.gather(logits, 1, chosen).softmax(-1), chosen
            module.gate.forward = forward


RECURRENT |= {
    "lfm2-moe": ("Lfm2Moe", torch.float32, 40, dict(
        vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, moe_intermediate_size=24, num_experts=6,
        num_experts_per_tok=2, num_dense_layers=1, max_position_embeddings=64, tie_word_embeddings=True, conv_L_cache=3,
        layer_types=["conv", "conv", "full_attention", "conv"]),
        SMALL_KEYS | {"norm_eps", "conv_L_cache", "conv_bias", "moe_intermediate_size", "num_experts", "num_experts_per_tok", "num_dense_layers", "norm_topk_prob",
                      "use_expert_bias", "routed_scaling_factor"},
        {"conv.conv.weight": (3.0, 0), "feed_forward.gate.weight": (2.0, 0)},
        {"the choice by biases": unbiased_choice, "biases out of weights": biased_weights, "sigmoids": softmax_weights, "the sum of weights": {"norm_topk_prob": False},
         "the second expert": {"num_experts_per_tok": 1}, "the dense layer": zero_weights("feed_forward.w2.weight"), "experts": zero_weights("down_proj"),
         "convolutions": zero_weights("conv.conv.weight")}),
}


LFM3_ROPE = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}


def lfm3_rope(kind, **changes):
    return {"rope_parameters": {**LFM3_ROPE, kind: {**LFM3_ROPE[kind], **changes}}}


RECURRENT |= {
    # The kinds of layers are those of the class without layer_types.
    "lfm3": ("Lfm3", torch.float16, 40, dict(pad_token_id=0, vocab_size=64, hidden_size=32, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=48,
                                             max_position_embeddings=64, tie_word_embeddings=True, conv_L_cache=5, sliding_window=6, rope_parameters=LFM3_ROPE),
             SMALL_KEYS | {"norm_eps", "conv_L_cache", "conv_bias", "use_sandwich_norm", "use_attention_gate"},
             {"conv.conv.weight": (3.0, 0), "q_norm.weight": (1.0, 1.0), "k_norm.weight": (1.0, 0.5), "g_proj.weight": (3.0, 0)},
             {"norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "gates of heads": zero_weights("g_proj.weight"),
              "norm after attention and convolutions": same_norms("post_operator_norm"), "norm after the MLP": same_norms("post_ffn_norm"),
              "convolutions": zero_weights("conv.conv.weight"), "order of taps": shifted_taps, "oldest tap": first_taps_zeroed, "window": {"sliding_window": 64},
              "part that is rotated": lfm3_rope("full_attention", partial_rotary_factor=1.0), "base of local angles": lfm3_rope("sliding_attention", rope_theta=1e4),
              "base of global angles": lfm3_rope("full_attention", rope_theta=4.0)}),
}


def half_pairs(dim, rotated=None):
    """A model whose rotary pairs are the halves of what is rotated of a head, not neighbours: one with other rows of q and k."""
    rows = torch.arange(dim)
    rows[:rotated] = rows[:rotated].view(2, -1).T.flatten()

    def off(model):
        for name, p in model.named_parameters():
            if re.search(r"attn\.[qk]_proj\.weight$", name):
                p.copy_(p.view(-1, dim, p.shape[-1])[:, rows].reshape(p.shape))
            elif re.search(r"attn\.[qk]_(proj\.bias|norm\.weight)$", name):
                p.copy_(p.view(-1, dim)[:, rows].reshape(p.shape))
    return off


def sequential_gptj(model):
    for layer in model.transformer.h:
        def forward(x, layer=layer, **others):
            x = x + layer.attn(hidden_states=layer.ln_1(x), **others)[0]
            return x + layer.mlp(layer.ln_1(x))
        layer.forward = forward


def one_head_norms(model):
    for name, p in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            p.copy_(p[:1].expand(p.shape))


def norms_before_rotation(model):
    """Hunyuan, as most others do it."""
    for layer in model.model.layers:
        attn = layer.self_attn
        for projection, norm in ((attn.q_proj, attn.query_layernorm), (attn.k_proj, attn.key_layernorm)):
            def forward(x, project=projection.forward, weigh=norm.forward):
                heads = project(x).unflatten(-1, (-1, attn.head_dim))
                return weigh(heads).flatten(-2)
            projection.forward, norm.forward = forward, lambda x: x


def ntk(alpha):
    return rope("dynamic", factor=1.0, alpha=alpha)


FOUR_LAYERS = ["sliding_attention"] * 3 + ["full_attention"]
FULL_LAYERS = ["full_attention"] * 2
SQUARES = {"the square": with_attributes("mlp", act_fn=nn.ReLU()), "squared ReLU": with_attributes("mlp", act_fn=nn.SiLU())}
POST_NORMS = {"norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "norm after attention": same_norms("post_attention_layernorm"),
              "norm after the MLP": same_norms("post_feedforward_layernorm")}
COHERE_KEYS = SMALL_KEYS | {"layer_norm_eps", "logit_scale", "use_qk_norm"}
GLM = SMALL | rope("default", partial_rotary_factor=0.5) | dict(head_dim=8, attention_bias=True, pad_token_id=0)
GLM_KEYS = SMALL_KEYS | {"partial_rotary_factor"}
GLM_WITHOUT = {"part that is rotated": rope("default", partial_rotary_factor=1.0), "neighbours as pairs": half_pairs(8, 4), "bias of q": zero_weights("q_proj.bias"),
               "bias of k": zero_weights("k_proj.bias"), "bias of v": zero_weights("v_proj.bias"), "norm before the MLP": same_norms("post_attention_layernorm")}
GPTJ = dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32, rotary_dim=4, tie_word_embeddings=False)
GPTJ_KEYS = {"n_embd", "n_layer", "n_head", "n_positions", "n_inner", "rotary_dim", "activation_function", "layer_norm_epsilon"}
GPTJ_BENT = {"ln_f.weight": (12.0, 0), "fc_in.bias": (1, -2.4), "fc_out.weight": (20, 0)}
GPTJ_WITHOUT = {"tanh in GELU": {"activation_function": "gelu"}, "part that is rotated": {"rotary_dim": 8}, "MLP beside attention": sequential_gptj,
                "bias of the MLP": zero_weights("fc_out.bias"), "bias of the head": zero_weights("lm_head.bias")}
FAMILIES |= {
    "exaone4": ("Exaone4", torch.bfloat16, 24, SMALL | LLAMA3 | dict(num_hidden_layers=4, sliding_window=5, layer_types=FOUR_LAYERS), SMALL_KEYS,
                {"norm.weight": (2.0, 0)},
                {**POST_NORMS, "window": {"sliding_window": 64}, "the global layer": {"layer_types": ["sliding_attention"] * 4},
                 "no positions in the global layer": with_attributes("layers.3.self_attn", is_sliding=True), "scaling of angles": PLAIN_ROPE}),
    "hunyuan": ("HunYuanDenseV1", torch.float16, 24, SMALL | ntk(50.0) | dict(head_dim=12, tie_word_embeddings=True), SMALL_KEYS,
                {"y_layernorm.weight": (3.0, -1.0)},
                {"norm of q": same_norms("query_layernorm"), "norm of k": same_norms("key_layernorm"), "norms after rotations": norms_before_rotation,
                 "alpha": ntk(1.0)}),
    "arcee": ("Arcee", torch.bfloat16, 20, SMALL, SMALL_KEYS, {}, {**SQUARES, "positions": rope("linear", factor=1000.0)}),
    "cohere": ("Cohere", torch.float16, 20, SMALL | dict(tie_word_embeddings=True, use_qk_norm=True, logit_scale=0.4), COHERE_KEYS, {"k_norm.weight": (4.0, 0)},
               {"scale of logits": {"logit_scale": 1.0}, "norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "weights for each head": one_head_norms,
                "MLP beside attention": sequential_phi, "neighbours as pairs": half_pairs(8)}),
    "cohere2": ("Cohere2", torch.bfloat16, 24, SMALL | dict(num_hidden_layers=4, tie_word_embeddings=True, sliding_window=5, logit_scale=0.4), COHERE_KEYS,
                {"q_proj.weight": (2.0, 0)},
                {"scale of logits": {"logit_scale": 1.0}, "window": {"sliding_window": 64}, "the global layer": {"layer_types": ["sliding_attention"] * 4},
                 "no positions in the global layer": with_attributes("layers.3.self_attn", sliding_window=64), "MLP beside attention": sequential_phi,
                 "neighbours as pairs": half_pairs(8)}),
    "glm": ("Glm", torch.float16, 20, GLM, GLM_KEYS, {}, GLM_WITHOUT),
    "glm4": ("Glm4", torch.bfloat16, 20, GLM, GLM_KEYS, {}, {**GLM_WITHOUT, "norm after attention": same_norms("post_self_attn_layernorm"),
                                                            "norm after the MLP": same_norms("post_mlp_layernorm")}),
    "nemotron": ("Nemotron", torch.bfloat16, 20, SMALL | rope("default", partial_rotary_factor=0.5), SMALL_KEYS | {"norm_eps", "partial_rotary_factor"},
                 {"norm.weight": (1, -1)},
                 {**SQUARES, "1 + w": weights_without_one, "bias of norms": zero_weights("norm.bias"), "part that is rotated": rope("default", partial_rotary_factor=1.0)}),
    "olmo": ("Olmo", torch.float16, 20, SMALL | dict(clip_qkv=1.0), SMALL_KEYS | {"clip_qkv"}, {},
             {"clipping": {"clip_qkv": None}, "norm before attention": same_norms("input_layernorm"), "norm before the MLP": same_norms("post_attention_layernorm"),
              "the last norm": same_norms("model.norm")}),
    "gptj": ("GPTJ", torch.float16, 20, GPTJ, GPTJ_KEYS, GPTJ_BENT, {**GPTJ_WITHOUT, "neighbours as pairs": half_pairs(8, 4)}),
    "codegen": ("CodeGen", torch.float16, 20, GPTJ, GPTJ_KEYS, GPTJ_BENT, GPTJ_WITHOUT),
}
ROUTED |= {
    "olmoe": ("Olmoe", torch.bfloat16, 20, EXPERTS | dict(intermediate_size=16, num_experts=6, num_experts_per_tok=3), EXPERTS_KEYS | {"clip_qkv"}, {},
              {"weights of all experts": {"norm_topk_prob": True}, "the third expert": {"num_experts_per_tok": 2}, "norm of q": same_norms("q_norm"),
               "norm of k": same_norms("k_norm"), "the choice": zero_weights("mlp.gate.weight")}),
}
# Without windows all layers have positions. null says more than no key.
LENT |= {
    "exaone4-full": (("Exaone4", torch.bfloat16, 20, TINY | dict(sliding_window=None, layer_types=FULL_LAYERS, tie_word_embeddings=True), SMALL_KEYS, {"norm.weight": (2.0, 0)},
                      {**POST_NORMS, "positions": rope("linear", factor=1000.0)}), {"sliding_window": NULL}, None),
}


def without_later_texts(model):
    """An encoder as a decoder."""
    forward = model.forward

    def causal(ids, **others):
        return forward(ids, attention_mask=torch.full((ids.shape[1],) * 2, -math.inf).triu(1)[None, None], **others)
    model.forward = causal


EUROBERT_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 250000.0}}
ENCODERS |= {
    "jina-v3": ("JinaEmbeddingsV3", torch.float16, 26, dict(
        vocab_size=74, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52, pad_token_id=1, max_position_embeddings=34, type_vocab_size=1,
        hidden_act="gelu", layer_norm_eps=0.05, rope_parameters={"rope_type": "default", "rope_theta": 20000.0}),
        {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings", "type_vocab_size", "hidden_act", "layer_norm_eps",
         "pad_token_id", "rope_parameters"},
        {"1.post_mlp_layernorm.weight": (16, 0), "fc1.bias": (1, -2.4), "fc2.weight": (8, 0), "q_proj.weight": (3, 0)},
        {"exact GELU": {"hidden_act": "gelu_new"}, "sight of later tokens": without_later_texts, "base of angles": PLAIN_ROPE,
         "token types": zero_weights("token_type_embeddings.weight"), "norm of the embedding": same_norms("embeddings.LayerNorm"),
         "norm after attention": same_norms("post_attention_layernorm"), "norm after the MLP": same_norms("0.post_mlp_layernorm"), "bias of q": zero_weights("q_proj.bias"),
         "bias of attention": zero_weights("o_proj.bias")}),
    "eurobert": ("EuroBert", torch.bfloat16, 24, SMALL | EUROBERT_ROPE | dict(pad_token_id=0), SMALL_KEYS | {"pad_token_id"}, {"norm.weight": (2.0, 0)},
                 {"sight of later tokens": without_later_texts, "base of angles": PLAIN_ROPE, "the last norm": lambda model: setattr(model.norm, "forward", lambda x: x), "gate": zero_weights("gate_proj.weight")}),
}


def jina(settings):
    """JinaBERT, which no release of transformers has: BERT with ALiBi in place of position embeddings, and an MLP with a gate."""
    model = transformers.BertModel(transformers.BertConfig(**settings, attn_implementation="eager"), add_pooling_layer=False).eval()
    for layer in model.encoder.layer:
        layer.intermediate.dense = nn.Linear(settings["hidden_size"], 2 * settings["intermediate_size"], bias=False)
        layer.intermediate.forward = gated_half(layer.intermediate)
    model.slopes = 2.0 ** (-8.0 * torch.arange(1, settings["num_attention_heads"] + 1) / settings["num_attention_heads"])
    return model


def gated_half(module):
    def forward(x):
        gate, up = module.dense(x).chunk(2, -1)
        return module.intermediate_act_fn(gate) * up
    return forward


def jina_names(state):
    """Renames weights like published files, and removes position embeddings, which are zero."""
    names = ((r"intermediate\.dense", "mlp.gated_layers"), (r"(layer\.\d+)\.output\.dense", r"\1.mlp.wo"), (r"(layer\.\d+)\.output\.LayerNorm", r"\1.mlp.layernorm"))
    return by_names(("position_embeddings|position_ids", None), *names)(state)


def jina_results(model, ids):
    at = torch.arange(len(ids))
    distances = -(at[:, None] - at[None]).abs() * model.slopes[:, None, None]
    with torch.no_grad():
        return model(ids[None], attention_mask=distances[None]).last_hidden_state[0].float()


def jina_bert(name, seed):
    settings = dict(vocab_size=70, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=44, max_position_embeddings=64, type_vocab_size=2,
                    hidden_act="gelu", layer_norm_eps=0.05)
    model = jina(settings)
    randomize(model, torch.float16, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            for ending, factor in (("position_embeddings.weight", 0), ("1.output.LayerNorm.weight", 16), ("intermediate.dense.weight", 2), ("query.weight", 2)):
                if key.endswith(ending):
                    p.mul_(factor)
            p.copy_(p.half().float())
    ids = torch.randint(settings["vocab_size"], (26,), generator=torch.Generator().manual_seed(seed + 1))
    results = jina_results(model, ids)
    moved = {}
    for feature, change in {"distances": {"slopes": model.slopes * 0}, "one slope for each head": {"slopes": model.slopes.flip(0)}}.items():
        slopes, model.slopes = model.slopes, change["slopes"]
        moved[feature] = (jina_results(model, ids) - results).abs().max().item()
        model.slopes = slopes
    changed_model = copy.deepcopy(model)
    for layer in changed_model.encoder.layer:
        layer.intermediate.forward = lambda x, dense=layer.intermediate.dense, act=layer.intermediate.intermediate_act_fn: act(dense(x).chunk(2, -1)[1]) * dense(x).chunk(2, -1)[0]
    moved["which half gates"] = (jina_results(changed_model, ids) - results).abs().max().item()
    for feature, by in moved.items():
        print(f"{name}: without {feature} a result moves by {by:.3f}")
        assert by >= 100 * TOLERANCE, f"{name} would not notice a missing {feature}"
    config = {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", **settings, "position_embedding_type": "alibi", "feed_forward_type": "geglu"}
    save(name, model, torch.float16, ids, results, config, {feature: round(by, 3) for feature, by in moved.items()}, True, jina_names)


class NomicExperts(nn.Module):
    """As nomic-embed-text 2 has them in every second layer, with its names: MLPs without gates, and one bias for all."""

    def __init__(self, hidden, inner, experts, used):
        super().__init__()
        self.router, self.experts = nn.Module(), nn.Module()
        self.router.layer = nn.Linear(hidden, experts, bias=False)
        self.experts.mlp, self.experts.bias = nn.Module(), nn.Parameter(torch.zeros(hidden))
        self.experts.mlp.w1, self.experts.mlp.w2 = (nn.Parameter(torch.zeros(experts * inner, hidden)) for _ in range(2))
        self.used, self.shape, self.normalized, self.gelu = used, (experts, inner, hidden), False, nn.GELU()

    def forward(self, x):
        weights, chosen = self.router.layer(x).softmax(-1).topk(self.used, -1)
        if self.normalized:
            weights = weights / weights.sum(-1, keepdim=True)
        up, down = (w.view(self.shape) for w in (self.experts.mlp.w1, self.experts.mlp.w2))
        each = torch.einsum("...ei,eih->...eh", self.gelu(torch.einsum("...h,eih->...ei", x, up)), down)
        return torch.einsum("...e,...eh->...h", torch.zeros(*x.shape[:-1], self.shape[0]).scatter(-1, chosen, weights), each) + self.experts.bias


def nomic_moe_names(state):
    """As published: q, k and v one after the other in one tensor."""
    out = {}
    for name, value in state.items():
        if name.startswith("pooler.") or ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            value = torch.cat([state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")])
        for new, old in (("layers.", "encoder.layers."), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.q_proj", "attn.Wqkv"), ("self_attn.o_proj", "attn.out_proj"),
                         ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2")):
            name = name.replace(new, old)
        out[name] = value.contiguous()
    return out


def nomic_moe(name, seed, biased):
    """nomic-embed-text 2, which is in no release of transformers: Jina's encoder of version 3, with experts in every second layer."""
    settings = dict(vocab_size=72, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=40, max_position_embeddings=34, type_vocab_size=1,
                    hidden_act="gelu", layer_norm_eps=0.05, pad_token_id=1, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    model = transformers.JinaEmbeddingsV3Model(transformers.JinaEmbeddingsV3Config(**settings, attn_implementation="eager"), add_pooling_layer=False).eval()
    for layer in model.layers[1::2]:
        layer.mlp = NomicExperts(32, 40, 5, 2)
    randomize(model, torch.float16, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            for ending, factor in (("3.post_mlp_layernorm.weight", 4), ("router.layer.weight", 3), ("mlp.w1", 2), ("fc2.weight", 8), ("q_proj.weight", 2), ("experts.bias", 4 if biased else 0)):
                if key.endswith(ending):
                    p.mul_(factor)
            if key.endswith("fc1.bias"):
                p.sub_(2.4)
            p.copy_(p.half().float())
    ids = torch.randint(settings["vocab_size"], (26,), generator=torch.Generator().manual_seed(seed + 1))
    results = compute_results(model, ids)
    changes = {"the choice": zero_weights("router.layer.weight"), "the second expert": with_attributes("mlp", used=1), "weights of all experts": with_attributes("mlp", normalized=True),
               "experts": zero_weights("mlp.w2"), "exact GELU": with_attributes("mlp", gelu=nn.GELU("tanh"), activation_fn=nn.GELU("tanh")), "sight of later tokens": without_later_texts,
               **({"bias of experts": zero_weights("experts.bias")} if biased else {})}
    moved = {}
    for what, change in changes.items():
        other = copy.deepcopy(model)
        with torch.no_grad():
            change(other)
        moved[what] = (compute_results(other, ids) - results).abs().max().item()
        print(f"{name}: without {what} a result moves by {moved[what]:.3f}")
        assert moved[what] >= 100 * TOLERANCE, f"{name} would not notice a missing {what}"
    config = {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "vocab_size": 72, "type_vocab_size": 1, "n_embd": 32, "n_head": 4, "n_layer": 4, "n_inner": 40,
              "n_positions": 32, "max_trained_positions": 2048, "layer_norm_epsilon": 0.05, "activation_function": "gelu", "rotary_emb_base": 10000,
              "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "qkv_proj_bias": True,
              "mlp_fc1_bias": True, "mlp_fc2_bias": True, "prenorm": False, "parallel_block": False, "use_rms_norm": False, "causal": False, "moe_every_n_layers": 2,
              "moe_normalize_expert_weights": False, "moe_top_k": 2, "num_experts": 5}
    save(name, model, torch.float16, ids, results, config, {what: round(by, 3) for what, by in moved.items()}, True, nomic_moe_names)


BITNET = dict(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, max_position_embeddings=64,
              tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, rope_parameters={"rope_type": "default", "rope_theta": 1000.0})
BITNET_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def with_ternary(model, rounds_inputs):
    """The model with the linear layers of transformers: ternary weights, and inputs of 8 bits per token or unchanged."""
    from transformers.integrations.bitnet import WeightQuant, replace_with_bitnet_linear

    quantization = transformers.BitNetQuantConfig(linear_class="autobitlinear", quantization_mode="online")
    out = replace_with_bitnet_linear(copy.deepcopy(model), ["lm_head"], quantization).to_empty(device="cpu").eval()
    out.load_state_dict(model.state_dict())
    out.model.rotary_emb = copy.deepcopy(model.model.rotary_emb)  # its table is not part of the state
    out.tie_weights()
    for name, module in out.named_modules():
        if name.endswith(BITNET_LINEARS) and not rounds_inputs:
            module.forward = lambda x, module=module: F.linear(x, WeightQuant.apply(module.weight))
    return out


def packed_state(model, linear_class, dtype):
    """Returns the state with packed matrices like transformers."""
    from transformers.integrations.bitnet import pack_weights

    out = {}
    for name, p in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        out[name] = p.to(dtype).contiguous()
        if name.endswith(tuple(f"{entry}.weight" for entry in BITNET_LINEARS)):
            mean = p.abs().mean().clamp(min=1e-5)
            out[name] = pack_weights((p / mean).round().clamp(-1, 1))
            out[f"{name}_scale"] = (mean if linear_class == "autobitlinear" else 1 / mean).float().reshape(1)  # half precision would change the results
    return out


def bitnet(name, seed):
    """Writes BitNet: weights before quantization, logits with ternary weights, and logits with inputs of 8 bits per token, too
    (rounded.json); packed-*.safetensors have the same ternary weights in bytes."""
    torch._dynamo.config.disable = True
    model = transformers.BitNetForCausalLM(transformers.BitNetConfig(**BITNET, attn_implementation="eager")).eval()
    randomize(model, torch.bfloat16, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("sub_norm.weight"):
                p.copy_((3 * p - 2).bfloat16().float())
    ids = torch.randint(BITNET["vocab_size"], (24,), generator=torch.Generator().manual_seed(seed + 1))
    results = compute_results(with_ternary(model, False), ids)
    changes = {"ternary weights": None, "norm before the output": same_norms("attn_sub_norm"), "norm before the last product": same_norms("ffn_sub_norm"),
               "the square": with_attributes("mlp", act_fn=nn.ReLU()), "squared ReLU": with_attributes("mlp", act_fn=nn.SiLU()),
               "positions": lambda model: model.model.rotary_emb.inv_freq.zero_()}
    moved = {}
    for feature, change in changes.items():
        changed_model = with_ternary(model, False) if change else copy.deepcopy(model)
        with torch.no_grad():
            if change:
                change(changed_model)
        moved[feature] = (compute_results(changed_model, ids) - results).abs().max().item()
        print(f"{name}: without {feature} a result moves by {moved[feature]:.3f}")
        assert moved[feature] >= 100 * TOLERANCE, f"{name} would not notice a missing {feature}"
    rounded = compute_results(with_ternary(model, True), ids)
    quantization = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}
    file_config = model.config.to_dict()
    config = {"architectures": ["BitNetForCausalLM"], **{k: v for k, v in file_config.items() if k in SMALL_KEYS | SHARED and v is not None}, "quantization_config": quantization}
    save(name, model, torch.bfloat16, ids, results, config, {feature: round(by, 3) for feature, by in moved.items()})
    for kind in ("bitlinear", "autobitlinear"):
        save_file(packed_state(model, kind, torch.bfloat16), f"{FOLDER}/fixtures/{name}/packed-{kind}.safetensors", metadata={"format": "pt"})
    with open(f"{FOLDER}/fixtures/{name}/rounded.json", "w", encoding="utf8") as out:
        values = rounded.numpy().astype("<f4").tobytes()
        out.write(json.dumps({"logits": base64.b64encode(values).decode(), "moved_by_rounding": round((rounded - results).abs().max().item(), 3), "made_with": VERSIONS}, indent=1) + "\n")
    print(f"{name}: inputs of 8 bits for each token move a logit by {(rounded - results).abs().max():.3f}, on average by {(rounded - results).abs().mean():.4f}")


def compute_results(model, ids):
    """Returns logits, or hidden states of encoders."""
    with torch.no_grad():
        out = model(ids[None]) if re.search("Bert|MPNet|Jina", type(model).__name__) else model(ids[None], use_cache=False)
        return (out.logits if "logits" in out else out.last_hidden_state)[0].float()


def compute_without(model, cls, settings, change, ids):
    """Returns the results with one feature switched off."""
    if isinstance(change, dict):
        changed_model = cls[0](cls[1](**{**settings, **change}, attn_implementation=attention_of(cls))).eval()
        changed_model.load_state_dict(model.state_dict())
        return compute_results(changed_model, ids)
    changed_model = copy.deepcopy(model)
    with torch.no_grad():
        change(changed_model)
    return compute_results(changed_model, ids)


def family(name, spec, seed, changes={}, renamed=None):
    kind, dtype, positions, settings, keys, tuned, features = spec
    encoder = name in ENCODERS
    sees = "text_config" in settings
    settings = settings if encoder or sees else {"bos_token_id": 1, "eos_token_id": 2, **settings}
    cls = tuple(getattr(transformers, entry) for entry in kind.split()) if sees else (getattr(transformers, kind + ("Model" if encoder else "LMHeadModel" if kind == "GPT2" else "ForCausalLM")), getattr(transformers, f"{kind}{'Text' if kind in ('Gemma3', 'Gemma4', 'Qwen3_5') else ''}Config"))
    model = cls[0](cls[1](**settings, attn_implementation=attention_of(cls))).eval()
    randomize(model, dtype, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            for ending, (factor, summand, *turning) in tuned.items():
                if key.endswith(ending):
                    p.mul_(factor).add_(alternating(p, summand) if turning else summand)
            p.copy_(p.to(dtype).float())
        for i, layer in enumerate(entry for entry in model.modules() if hasattr(entry, "layer_scalar")):
            layer.layer_scalar.fill_(0.75 + i / 8)
        for i, layer in enumerate(entry for entry in model.modules() if hasattr(entry, "expert_bias")):
            n = len(layer.expert_bias)
            layer.expert_bias.copy_(torch.tensor([((5 * e + 3 * i) % n - n // 2) / 8 for e in range(n)]))
    ids = torch.randint(settings.get("text_config", settings)["vocab_size"], (positions,), generator=torch.Generator().manual_seed(seed + 1))
    if encoder and "pad_token_id" in settings:  # padding has no position
        ids[ids == settings["pad_token_id"]] += 1
    results = compute_results(model, ids)
    moved = {feature: (compute_without(model, cls, settings, change, ids) - results).abs().max().item() for feature, change in features.items()}
    for feature, by in moved.items():
        print(f"{name}: without {feature} a result moves by {by:.3f}")
    unchanged = [feature for feature, by in moved.items() if by < 100 * TOLERANCE]
    assert not unchanged, f"{name} would not notice a missing {unchanged}"
    file_config = model.config.to_dict()
    if "attn_config" in file_config:
        file_config["attn_config"] = {k: file_config["attn_config"][k] for k in ("attn_type", "alibi", "alibi_bias_max", "clip_qkv", "softmax_scale", "qk_ln")}
    config = {"architectures": [cls[0].__name__], **{k: v for k, v in file_config.items() if k in keys | SHARED and v is not None}}
    if sees:
        config["text_config"] = {k: v for k, v in file_config["text_config"].items() if k in SMALL_KEYS | SHARED and v is not None}
    config = {k: None if v == NULL else v for k, v in {**config, **changes}.items() if v is not None}
    save(name, model, dtype, ids, results, config, {feature: round(by, 3) for feature, by in moved.items()}, encoder, renamed or (lambda state: state))


class Jais(nn.Module):
    """The first Jais, which is in no library: GPT-2 with linear biases of distances and a gated MLP, with the names of published files."""

    def __init__(self, vocab, hidden, heads, inner, layers, embed_scale, logit_scale, scores_by_dim):
        super().__init__()
        block = lambda: nn.ModuleDict({
            "ln_1": nn.LayerNorm(hidden, 1e-5), "ln_2": nn.LayerNorm(hidden, 1e-5), "attn": nn.ModuleDict({"c_attn": Conv1D(3 * hidden, hidden), "c_proj": Conv1D(hidden, hidden)}),
            "mlp": nn.ModuleDict({"c_fc": Conv1D(inner, hidden), "c_fc2": Conv1D(inner, hidden), "c_proj": Conv1D(hidden, inner)})})
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(vocab, hidden), "h": nn.ModuleList(block() for _ in range(layers)), "ln_f": nn.LayerNorm(hidden, 1e-5)})
        self.lm_head = nn.Linear(hidden, vocab, bias=False)
        self.heads, self.embed_scale, self.logit_scale = heads, embed_scale, logit_scale
        self.score_scale = (heads / hidden) ** (1.0 if scores_by_dim else 0.5)
        self.slopes, self.gate = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads), F.silu

    def forward(self, ids):
        n = len(ids)
        distance = torch.arange(n)[:, None] - torch.arange(n)
        biases = (-self.slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf)
        x = self.transformer["wte"](ids) * self.embed_scale
        for layer in self.transformer["h"]:
            q, k, v = (part.view(n, self.heads, -1).transpose(0, 1) for part in layer["attn"]["c_attn"](layer["ln_1"](x)).chunk(3, -1))
            mix = (q @ k.transpose(1, 2) * self.score_scale + biases).softmax(-1) @ v
            x = x + layer["attn"]["c_proj"](mix.transpose(0, 1).reshape(n, -1))
            mlp, normed = layer["mlp"], layer["ln_2"](x)
            x = x + mlp["c_proj"](mlp["c_fc"](normed) * self.gate(mlp["c_fc2"](normed)))
        return self.lm_head(self.transformer["ln_f"](x)) * self.logit_scale


def check_changes(name, model, changes, results, compute):
    """Returns how far each change of a copy of the model moves a result."""
    moved = {}
    for feature, change in changes.items():
        changed_model = copy.deepcopy(model)
        with torch.no_grad():
            change(changed_model)
            moved[feature] = (compute(changed_model) - results).abs().max().item()
        print(f"{name}: without {feature} a result moves by {moved[feature]:.3f}")
        assert moved[feature] >= 100 * TOLERANCE, f"{name} would not notice a missing {feature}"
    return {feature: round(by, 3) for feature, by in moved.items()}


def jais(name, seed):
    model = Jais(vocab=64, hidden=32, heads=4, inner=44, layers=2, embed_scale=3.0, logit_scale=0.5, scores_by_dim=True).eval()
    randomize(model, torch.float32, seed)
    ids = torch.randint(64, (20,), generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("c_attn.weight"):
                p.mul_(2)
        results = model(ids)
    moved = check_changes(name, model, {
        "distances": lambda model: setattr(model, "slopes", model.slopes * 0), "one slope for each head": lambda model: setattr(model, "slopes", model.slopes.flip(0)),
        "scale of scores": lambda model: setattr(model, "score_scale", 8**-0.5), "scale of the embedding": lambda model: setattr(model, "embed_scale", 1.0),
        "scale of logits": lambda model: setattr(model, "logit_scale", 1.0), "SiLU of the gate": lambda model: setattr(model, "gate", torch.sigmoid),
        "bias of qkv": zero_weights("c_attn.bias"), "bias of the gate": zero_weights("c_fc2.bias"), "bias of norms": zero_weights("ln_1.bias")}, results, lambda model: model(ids))
    config = {"architectures": ["JAISLMHeadModel"], "model_type": "jais", "vocab_size": 64, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_inner": 44, "n_positions": 64,
              "activation_function": "swiglu", "position_embedding_type": "alibi", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True, "embeddings_scale": 3.0,
              "width_scale": 0.5, "scale_qk_dot_by_d": True, "alibi_scaling": None, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
    save(name, model, torch.float32, ids, results, config, moved)


def backward_rotation(model):
    model.model.rotary_emb.inv_freq.neg_()


def unnormed_embedding(model):
    """nanochat without its first norm, which is the same module as the last."""
    calls, weigh = [], model.model.norm.forward

    def forward(x):
        calls.append(x)
        return x if len(calls) == 1 else weigh(x)
    model.model.norm.forward = forward


QKV_BIASES = {f"bias of {which}": zero_weights(f"{which}_proj.bias") for which in "qkv"}
FAMILIES |= {
    "helium": ("Helium", torch.bfloat16, 20, SMALL | dict(head_dim=8), SMALL_KEYS, {"norm.weight": (2.0, 0)},
               {"neighbours as pairs": half_pairs(8), "positions": rope("linear", factor=1000.0)}),
    "vaultgemma": ("VaultGemma", torch.bfloat16, 24, SMALL | dict(
        num_hidden_layers=4, hidden_size=24, head_dim=12, intermediate_size=32, tie_word_embeddings=True, sliding_window=5, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
        final_logit_softcapping=9.0), SMALL_KEYS | {"query_pre_attn_scalar", "hidden_activation", "attn_logit_softcapping", "final_logit_softcapping"}, {"norm.weight": (1, -1)},
        {"window": {"sliding_window": 64}, "softcap of scores": {"attn_logit_softcapping": None}, "softcap of logits": {"final_logit_softcapping": None},
         "query_pre_attn_scalar": {"query_pre_attn_scalar": 12}, "norm before the MLP": same_norms("pre_feedforward_layernorm"), "scale of the embedding": unscaled_embedding,
         "1 + w": weights_without_one}),
    "nanochat": ("NanoChat", torch.bfloat16, 20, SMALL | dict(final_logit_softcapping=6.0), SMALL_KEYS | {"final_logit_softcapping"}, {"q_proj.weight": (2.0, 0)},
                 {"the square": with_attributes("mlp", activation_fn=nn.ReLU()), "squared ReLU": with_attributes("mlp", activation_fn=nn.SiLU()), "direction of rotation": backward_rotation, "norm of the embedding": unnormed_embedding, "softcap of logits": {"final_logit_softcapping": None},
                  "norm of q": same_norms("q_norm"), "norm of k": same_norms("k_norm"), "norm before attention": same_norms("input_layernorm"),
                  "norm before the MLP": same_norms("post_attention_layernorm")}),
    "jais2": ("Jais2", torch.float16, 20, SMALL, SMALL_KEYS | {"layer_norm_eps"}, {},
              {**SQUARES, **QKV_BIASES, "bias of o": zero_weights("o_proj.bias"), "bias of the MLP": zero_weights("down_proj.bias"), "bias of norms": zero_weights("layernorm.bias"),
               "positions": rope("linear", factor=1000.0)}),
    "seed_oss": ("SeedOss", torch.float16, 20, TINY | dict(head_dim=8, attention_out_bias=True), SMALL_KEYS | {"attention_out_bias"}, {"norm.weight": (2.0, 0)},
                 {**QKV_BIASES, "bias of o": zero_weights("o_proj.bias"), "norm before the MLP": same_norms("post_attention_layernorm"),
                  "positions": rope("linear", factor=1000.0)}),
}


ENCODERS |= {
    "llama-bidirec": ("EuroBert", torch.bfloat16, 24, TINY | LLAMA3 | dict(pad_token_id=0), SMALL_KEYS | {"pad_token_id"}, {"norm.weight": (2.0, 0)},
                      {"sight of later tokens": without_later_texts, "scaling of angles": PLAIN_ROPE}),
}
RENAMED |= {"llama-bidirec": (dict(architectures=["LlamaBidirectionalModel"], model_type="llama_bidirec", pooling="avg", temperature=0.02), lambda state: state)}


class SparkAttention(nn.Module):
    """Attention of Spark-X2.5, which is in no library: the output of each head has a gate."""

    def __init__(self, hidden, heads, kv_heads, dim, window, theta, rotated):
        super().__init__()
        self.heads, self.kv_heads, self.dim, self.window, self.theta, self.rotated = heads, kv_heads, dim, window, theta, rotated
        self.q_k_v_proj = nn.Linear(hidden, (heads + 2 * kv_heads) * dim, bias=False)
        self.g_proj, self.o_proj = nn.Linear(hidden, heads, bias=False), nn.Linear(heads * dim, hidden, bias=False)

    def rotate(self, x):
        half = self.rotated // 2
        angles = torch.arange(x.shape[1]).double()[:, None] * self.theta ** (-torch.arange(half).double() / half)
        cos, sin = angles.cos().float(), angles.sin().float()
        a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
        return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), -1)

    def forward(self, hidden_states, **_):
        x, dim = hidden_states[0], self.dim
        q, k, v = (part.view(len(x), -1, dim).transpose(0, 1) for part in self.q_k_v_proj(x).split([self.heads * dim, self.kv_heads * dim, self.kv_heads * dim], -1))
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, 0) for part in (self.rotate(k), v))
        distance = torch.arange(len(x))[:, None] - torch.arange(len(x))
        scores = self.rotate(q) @ k.transpose(1, 2) / math.sqrt(dim)
        mix = scores.masked_fill((distance < 0) | (distance >= self.window), -math.inf).softmax(-1) @ v
        return self.o_proj((mix * self.g_proj(x).sigmoid().T[..., None]).transpose(0, 1).reshape(1, len(x), -1)), None


def spark(name, seed):
    settings = dict(vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=48,
                    max_position_embeddings=64, tie_word_embeddings=True, hidden_act="gelu", rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2)
    kinds = [LOCAL, LOCAL, LOCAL, FULL]
    rope_of = {FULL: {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25}, LOCAL: {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings, attn_implementation="eager")).eval()
    for kind, layer in zip(kinds, model.model.layers):
        layer.self_attn = SparkAttention(32, 4, 2, 16, 5 if kind == LOCAL else 64, rope_of[kind]["rope_theta"], int(16 * rope_of[kind]["partial_rotary_factor"]))
    randomize(model, torch.float16, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            for ending, (factor, summand) in {**BENT_GATE, "g_proj.weight": (2.0, 0), "model.norm.weight": (0.4, 0)}.items():
                if key.endswith(ending):
                    p.mul_(factor).add_(summand)
            p.copy_(p.half().float())
    ids = torch.randint(64, (24,), generator=torch.Generator().manual_seed(seed + 1))
    results = compute_results(model, ids)
    moved = check_changes(name, model, {
        "gates of heads": zero_weights("g_proj.weight"), "window": with_attributes("self_attn", window=64), "the global layer": with_attributes("3.self_attn", window=5),
        "part that is rotated": with_attributes("3.self_attn", rotated=16), "rotated part of local layers": with_attributes("self_attn", rotated=4),
        "base of local angles": with_attributes("self_attn", theta=1000.0), "base of global angles": with_attributes("3.self_attn", theta=4.0), "exact GELU": tanh_gelu},
        results, lambda model: compute_results(model, ids))
    config = {"architectures": ["Spark2_5ForCausalLM"], "model_type": "spark2_5", **settings, "sliding_window": 5, "layer_types": kinds, "rope_parameters": rope_of,
              "gate_attn_act_mode": "sigmoid", "headwise_attn_output_gate": True}
    save(name, model, torch.float16, ids, results, config, moved)


def without_sinks(model):
    for name, p in model.named_parameters():
        if name.endswith(".sinks"):
            p.fill_(-1e4)


SWA = TINY | dict(num_hidden_layers=4, tie_word_embeddings=True, sliding_window=5, layer_types=[FULL, LOCAL, LOCAL, FULL], embedding_multiplier=3.0, attention_multiplier=0.5,
                  residual_multiplier=0.6, logits_scaling=0.7)
SWA_KEYS = SMALL_KEYS | {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "layer_rope_theta"}
SWA_WITHOUT = {"sinks": without_sinks, "values of sinks": zero_weights(".sinks"), "window": {"sliding_window": 64}, "the last global layer": {"layer_types": [FULL, LOCAL, LOCAL, LOCAL]}}
FAMILIES |= {
    "granite_swa": ("GraniteSWA", torch.bfloat16, 24, SWA | dict(layer_rope_theta=[0, 10000.0, 10000.0, 10000.0]), SWA_KEYS, {".sinks": (6.0, 1.0), "norm.weight": (2.0, 0)},
                    {**FACTORS, **SWA_WITHOUT, "scale of scores": {"attention_multiplier": 6**-0.5}, "the layer without positions": {"layer_rope_theta": [10000.0] * 4}}),
    "granite_swa-bases": ("GraniteSWA", torch.bfloat16, 24, SWA | dict(layer_rope_theta=[1000.0, 20.0, 20.0, 1000.0]), SWA_KEYS, {".sinks": (6.0, 1.0), "norm.weight": (2.0, 0)},
                          {**SWA_WITHOUT, "base of local angles": {"layer_rope_theta": [1000.0] * 4}, "base of global angles": {"layer_rope_theta": [20.0] * 4}}),
}


ROUTED |= {
    "granitemoe_swa": ("GraniteMoeSWA", torch.bfloat16, 24, SWA | dict(
        intermediate_size=16, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=24, layer_rope_theta=[0, 10000.0, 10000.0, 10000.0]),
        SWA_KEYS | EXPERTS_KEYS | {"shared_intermediate_size"}, {".sinks": (6.0, 1.0)},
        {**FACTORS, **SWA_WITHOUT, "the second expert": {"num_experts_per_tok": 1}, "the shared expert": zero_weights("shared_mlp.output_linear.weight"),
         "the layer without positions": {"layer_rope_theta": [10000.0] * 4}}),
}


def qwen_names(state):
    """Renames weights like the first Qwen: q, k and v after each other in one tensor."""
    out = {}
    for name, value in state.items():
        if ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            value = torch.cat([state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")])
        out[name] = value
    return by_names((r"^model\.", "transformer."), ("embed_tokens", "wte"), (r"layers\.", "h."), ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"),
                    (r"self_attn\.q_proj", "attn.c_attn"), (r"self_attn\.o_proj", "attn.c_proj"), ("gate_proj", "w2"), ("up_proj", "w1"), ("down_proj", "c_proj"),
                    (r"transformer\.norm", "transformer.ln_f"))(out)


LENT |= {
    "qwen": (("Qwen2", torch.bfloat16, 20, TINY | dict(num_key_value_heads=4), SMALL_KEYS, {"norm.weight": (2.0, 0)}, {**QKV_BIASES, "positions": rope("linear", factor=1000.0)}),
             {"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "kv_channels": 6, "intermediate_size": 48, "layer_norm_epsilon": 1e-6, "rms_norm_eps": None,
              "seq_length": 32, "rotary_emb_base": 10000, "rotary_pct": 1.0, "rope_parameters": None, "no_bias": True, "use_dynamic_ntk": True, "use_logn_attn": True,
              "num_key_value_heads": None, "hidden_act": None, "layer_types": None}, qwen_names),
}


def short_side(name, positions):
    """Writes the results of an existing checkpoint with longrope for a text within the original context, which uses the short factors."""
    folder = f"{FOLDER}/fixtures/{name}"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", pad_token_id=0).eval()
    with open(f"{folder}/expected.json", encoding="utf8") as file:
        expected = json.load(file)
    ids, vocab = torch.tensor(expected["ids"]), expected["vocab"]
    logits = compute_results(model, ids[:positions])
    long = compute_results(model, ids)
    recorded = torch.frombuffer(bytearray(base64.b64decode(expected["logits"])), dtype=torch.float32).view(-1, vocab)
    assert (long - recorded).abs().max() < TOLERANCE / 10, "the checkpoint is another one"
    moved = (logits - long[:positions]).abs().max().item()
    assert moved >= 100 * TOLERANCE, f"long factors move a logit by {moved} only"
    with open(f"{folder}/short.json", "w", encoding="utf8") as out:
        values = logits.numpy().astype("<f4").tobytes()
        out.write(json.dumps({"positions": positions, "logits": base64.b64encode(values).decode(), "moved_by_long_factors": round(moved, 3),
                              "made_with": VERSIONS}, indent=1) + "\n")
    print(f"{name}: {positions} positions, where long factors would move a logit by {moved:.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--short"]:
        short_side(sys.argv[2], int(sys.argv[3]))
        sys.exit()
    if len(sys.argv) == 1 or "jina-bert-v2" in sys.argv[1:]:
        jina_bert("jina-bert-v2", 150100)
    for seed, name in enumerate(("nomic-moe", "nomic-moe-unbiased")):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            nomic_moe(name, 150300 + 100 * seed, name == "nomic-moe")
    if len(sys.argv) == 1 or "jais" in sys.argv[1:]:
        jais("jais", 150500)
    if len(sys.argv) == 1 or "spark" in sys.argv[1:]:
        spark("spark", 150600)
    if len(sys.argv) == 1 or "bitnet" in sys.argv[1:]:
        bitnet("bitnet", 150200)
    for first, group in ((1, {**LLAMAS, **BULLETS, **FAMILIES}), (1001, ENCODERS), (1101, ROUTED), (1201, LISTED), (1301, LENT), (1401, RECURRENT)):
        for seed, (name, spec) in enumerate(group.items(), first):
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            if name in LENT:
                family(name, spec[0], seed * 100, spec[1], spec[2])
                continue
            if name in RENAMED:
                family(name, spec, seed * 100, *RENAMED[name])
                continue
            (llama if name in LLAMAS else bullet if name in BULLETS else family)(name, *(spec if name in LLAMAS or name in BULLETS else [spec]), seed * 100)
