"""A small random EmbeddingGemma as a folder of sentence-transformers, with dense layers and prompts, and the vectors of that library.

    python tests/golden/make_embedders.py
    python tests/golden/make_embedders.py --gguf llama_cpp_python-0.3.36/vendor/llama.cpp

Writes tests/golden/embedders/embedding-gemma/: the files of a published folder, expected.json and, with --gguf (make_gguf.py describes
the converter), embedding-gemma.gguf. Without each of the dense layers, or the prompt, the vectors must change by 100 times the tolerance
of the tests. Needs torch, transformers, sentence-transformers, tokenizers and safetensors.
"""

import json
import logging
import os
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from make_fixtures import TOLERANCE, randomize
from make_rerankers import byte_level

FOLDER = Path(__file__).parent / "embedders" / "embedding-gemma"
PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: ", "Clustering": ""}
TEXTS = ["When does the museum open?", "Soup of the day: leek.", "A long tale of trains and of soup, and of a museum that never opened. " * 4]
SIZES = dict(hidden_size=24, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=32, max_position_embeddings=128,
             sliding_window=8, query_pre_attn_scalar=12, use_bidirectional_attention=True)


def put(name, value):
    path = FOLDER / name
    os.makedirs(path.parent, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def make():
    from sentence_transformers import SentenceTransformer, __version__

    tokenizer = byte_level()
    model = transformers.Gemma3TextModel(transformers.Gemma3TextConfig(**SIZES, vocab_size=len(tokenizer), attn_implementation="eager")).eval()
    randomize(model, torch.float32, 180000)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.sub_(1)
    os.makedirs(FOLDER, exist_ok=True)
    model.save_pretrained(FOLDER)
    tokenizer.save_pretrained(FOLDER)
    generator = torch.Generator().manual_seed(180001)
    for i, (rows, cols) in enumerate(((60, 24), (24, 60)), 2):
        put(f"{i}_Dense/config.json", {"in_features": cols, "out_features": rows, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"})
        save_file({"linear.weight": torch.randn(rows, cols, generator=generator) / cols**0.5}, FOLDER / f"{i}_Dense/model.safetensors", metadata={"format": "pt"})
    put("1_Pooling/config.json", {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "include_prompt": True})
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Dense", "Dense"), ("4_Normalize", "Normalize")]
    put("modules.json", [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (path, kind) in enumerate(kinds)])
    put("config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    put("sentence_bert_config.json", {"max_seq_length": 40, "do_lower_case": False})

    sentence = SentenceTransformer(str(FOLDER), device="cpu")
    vectors = {name: torch.tensor(sentence.encode(TEXTS, prompt_name=name or None)) for name in ("", "query", "document")}
    moved = {"the prompt": (vectors[""] - vectors["query"]).abs().max().item()}
    for layer in (2, 3):
        weight = sentence[layer].linear.weight.data.clone()
        sentence[layer].linear.weight.data = torch.eye(*weight.shape)
        moved[f"{layer}_Dense"] = (torch.tensor(sentence.encode(TEXTS)) - vectors[""]).abs().max().item()
        sentence[layer].linear.weight.data = weight
    for part, by in moved.items():
        print(f"embedding-gemma: without {part} a vector moves by {by:.3f}")
        assert by >= 100 * TOLERANCE, f"embedding-gemma would not notice a missing {part}"
    put("expected.json", {"texts": TEXTS, "ids": [tokenizer(text, truncation=True, max_length=40)["input_ids"] for text in TEXTS],
                          "vectors": {name: rows.tolist() for name, rows in vectors.items()}, "moved_without": {part: round(by, 3) for part, by in moved.items()},
                          "made_with": {"sentence-transformers": __version__, "transformers": transformers.__version__, "torch": torch.__version__}})
    for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        (FOLDER / name).unlink(missing_ok=True)


def convert(source):
    sys.path[:0] = [source, f"{source}/gguf-py"]
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(FOLDER, False), ModelType.TEXT))
    model = kind(FOLDER, gguf.LlamaFileType.ALL_F32, FOLDER / "embedding-gemma.gguf", model_name="embedding-gemma", sentence_transformers_dense_modules=True)
    model.set_vocab = lambda: None
    model.write()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--gguf"]:
        logging.disable(logging.INFO)
        with torch.inference_mode():
            convert(sys.argv[2])
    else:
        make()
