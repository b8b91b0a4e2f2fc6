"""Random adapters (LoRA) for some checkpoints of tests/golden/fixtures, and the logits of the merged models.

    pip install peft==0.21.2
    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
    tar xf llama_cpp_python-0.3.36.tar.gz
    python tests/golden/make_adapters.py llama_cpp_python-0.3.36/vendor/llama.cpp [NAME…]

Writes tests/golden/adapters/NAME/{adapter_config.json, adapter_model.safetensors, expected.json}, as saved by PEFT, and
adapter.gguf, converted by llama.cpp. The logits are those of merge_and_unload() in f32, at every position of the fixture's tokens;
`moved` is the largest change of a logit by the adapter. Needs torch, transformers and peft.
"""

import base64
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import peft
import torch
import transformers

FOLDER = Path(__file__).parent
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Settings of PEFT, whether the converter of llama.cpp reads them, and the seed.
ADAPTERS = {
    "llama-gqa": (dict(r=8, lora_alpha=16, target_modules=LLAMA), True, 1),
    # Another adapter of the same model, for some layers and modules.
    "llama-gqa-some": (dict(r=5, lora_alpha=7, target_modules=["q_proj", "v_proj"], layers_to_transform=[1]), True, 2),
    # Ranks and factors by module, scaled by the root of the rank.
    "llama-odd": (dict(r=4, lora_alpha=5, target_modules=LLAMA, use_rslora=True, rank_pattern={"q_proj": 6, "mlp.down_proj": 7},
                       alpha_pattern={"k_proj": 9}), False, 3),
    # q, k and v are one module, and so are gate and up.
    "phi3": (dict(r=6, lora_alpha=12, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]), True, 4),
    # Modules keep their weights as (in, out).
    "gpt2": (dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True), False, 5),
}
# Changes of the fixture's config.json for the converter, which expects those of published models.
FIXTURE = {"llama-gqa-some": "llama-gqa"}


def compute_logits(model, ids):
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].float()


def write_adapter(name, llama_cpp):
    settings, to_gguf, seed = ADAPTERS[name]
    fixture = FIXTURE.get(name, name)
    source, out = FOLDER / "fixtures" / fixture, FOLDER / "adapters" / name
    out.mkdir(parents=True, exist_ok=True)
    ids = json.loads((source / "expected.json").read_text())["ids"]
    config = transformers.AutoConfig.from_pretrained(source)
    config.pad_token_id = None  # the number in published models is outside the fixture's vocabulary
    base = transformers.AutoModelForCausalLM.from_pretrained(source, config=config, dtype=torch.float32, attn_implementation="eager").eval()
    plain = compute_logits(base, ids)
    torch.manual_seed(seed)
    model = peft.get_peft_model(base, peft.LoraConfig(**settings)).eval()
    for key, value in model.named_parameters():
        if "lora_" in key:
            value.data = torch.randn(value.shape) * 0.15
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for file in ["adapter_config.json", "adapter_model.safetensors"]:
            shutil.copy(Path(folder) / file, out / file)
    config = json.loads((out / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = fixture  # in place of a path of this machine
    (out / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    merged = compute_logits(model.merge_and_unload(), ids)
    if to_gguf:
        command = [sys.executable, f"{llama_cpp}/convert_lora_to_gguf.py", "--base", source, "--outtype", "f32", "--outfile", out / "adapter.gguf", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    expected = {"fixture": fixture, "ids": ids, "vocab": merged.shape[1], "moved": float((merged - plain).abs().max()),
                "logits": base64.b64encode(merged.numpy().tobytes()).decode(), "made_with": versions}
    (out / "expected.json").write_text(json.dumps(expected) + "\n")
    print(f"{name}: moved by {expected['moved']:.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for adapter in sys.argv[2:] or ADAPTERS:
        write_adapter(adapter, sys.argv[1])
