"""Writes variants of the checkpoints of tests/golden/fixtures, each with one option of config.json changed, and their logits by transformers.

    python tests/golden/vary_options.py FOLDER [NAME…]
    node tests/golden/vary_options.mjs FOLDER

The second command converts each variant and compares its logits: they must be equal, or the file must be refused by name. The variants show
options that a family of ours accepts but does not compute as transformers does. Needs torch, transformers and safetensors; takes minutes.
"""

import base64
import json
import os
import re
import sys

import torch
import transformers

from make_fixtures import FOLDER as GOLDEN
from make_fixtures import randomize

POSITIONS, SEED = 28, 12345
# Keys that affect only training, generation, or shapes that would no longer fit each other.
SKIPPED = re.compile(r"dropout|initializer|use_cache|^output_|return_dict|dtype|token_id|aux_loss|problem_type|id2label|label2id|architectures|version|model_type|_name_or_path|"
                     r"pretraining|gradient|jitter|z_loss|is_encoder_decoder|time_step_(min|max|floor)|rescale|hidden_size$|num_hidden_layers|vocab_size|num_attention_heads|"
                     r"n_head$|n_layer$|n_embd$|hidden_dim|base_model|tp_plan|sep_token|cross|decoder_start|pruned|quantization|use_mamba_kernels|chunk|summary|scale_attn_weights$|"
                     r"mamba_n_heads|mamba_d_head|mamba_n_groups|num_local_experts|num_experts$|d_model|max_position|n_positions|layers_block|layer_types|max_seq_len|"
                     r"_implementation|text_config|per_layer_config|vision")
ACTIVATION_KEYS = ("hidden_act", "hidden_activation", "activation_function", "activation")
ACTIVATIONS = ("gelu", "silu", "relu", "gelu_pytorch_tanh", "gelu_new", "quick_gelu", "relu2")
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
POSITIONS_OF_KINDS = (
    {"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0}, YARN, {**YARN, "mscale": 0.7, "mscale_all_dim": 0.5},
    {**YARN, "truncate": False, "beta_fast": 8.0}, {"rope_type": "default", "partial_rotary_factor": 0.5}, {"rope_type": "default", "rope_theta": 77.0},
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
)


def changed_values(key, value):
    """Returns other values of an option."""
    if key == "rope_parameters":
        kept = {k: v for k, v in (value or {}).items() if k in ("rope_theta", "partial_rotary_factor", "mrope_section")}
        return [{**kept, **kind} for kind in POSITIONS_OF_KINDS] if "rope_theta" in kept else []
    if key in ACTIVATION_KEYS:
        return [name for name in ACTIVATIONS if name != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, float):
        return [1.7 * value or 0.4]
    if isinstance(value, int):
        return [1 if key in ("num_key_value_heads", "num_kv_heads") else 3 if "window" in key else value + (8 if re.search("head_dim|intermediate|n_inner", key) else 1)]
    if value is None and "window" in key:
        return [5]
    if value is None and "bias" in key:
        return [True]
    return [0.7] if value is None and re.search("factor|scal|mult|clip|cap", key) else []


def write(folder, classes, settings, change):
    """Writes a variant; only the reason if transformers refuses it."""
    os.makedirs(folder, exist_ok=True)
    try:
        config = classes[1](**{**settings, **change}, attn_implementation="eager")
        model = classes[0](config).eval()
        randomize(model, torch.float32, SEED)
        ids = torch.randint(1, config.get_text_config().vocab_size, (POSITIONS,), generator=torch.Generator().manual_seed(SEED + 1))
        with torch.no_grad():
            logits = model(ids[None], use_cache=False).logits[0].float()
        assert torch.isfinite(logits).all(), "the logits are not finite"
        model.save_pretrained(folder)
        expected = {"ids": ids.tolist(), "vocab": logits.shape[1], "change": change, "logits": base64.b64encode(logits.numpy().astype("<f4").tobytes()).decode()}
    except Exception as error:  # of any kind: transformers checks little
        expected = {"change": change, "refused": f"{type(error).__name__}: {error}"}
    with open(f"{folder}/expected.json", "w", encoding="utf8") as out:
        json.dump(expected, out)


def vary(name, out):
    with open(f"{GOLDEN}/fixtures/{name}/config.json", encoding="utf8") as file:
        config = json.load(file)
    try:
        kind = type(transformers.AutoConfig.for_model(config["model_type"]))
        classes = (transformers.AutoModelForCausalLM._model_mapping[kind], kind)
    except (KeyError, ValueError):
        print(f"{name}: transformers has no decoder for its model_type")
        return
    settings = {k: v for k, v in kind(**{k: v for k, v in config.items() if k != "architectures"}).to_dict().items() if k != "architectures"}
    changes = [{}] + [{key: value} for key, old in settings.items() if not SKIPPED.search(key) for value in changed_values(key, old)]
    for i, change in enumerate(changes):
        write(f"{out}/{name}-{i}", classes, settings, change)
    print(f"{name}: {len(changes)} variants")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for fixture in sys.argv[2:] or sorted(os.listdir(f"{GOLDEN}/fixtures")):
        vary(fixture, sys.argv[1])
