"""Small random rerankers and classifiers with tokenizers, and logits for pairs of texts, computed by transformers.

    python tests/golden/make_rerankers.py [NAME…]
    python tests/golden/make_rerankers.py --gguf llama_cpp_python-0.3.36/vendor/llama.cpp [NAME…]

Writes tests/golden/rerankers/NAME/{config.json, model.safetensors, tokenizer.json, expected.json}, and with --gguf (make_gguf.py
describes the converter) NAME/NAME.gguf. Each feature of a classifier is switched off once, alone: a logit must change by 100 times the
tolerance of the tests; expected.json contains these changes.
Needs torch, transformers, tokenizers and safetensors.
"""

import copy
import json
import logging
import os
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_fixtures import TOLERANCE, VERSIONS, randomize, same_norms, zero_weights

OUT = Path(__file__).parent / "rerankers"
QUERIES = ["When does the museum open?", "soup of the day"]
DOCUMENTS = ["Trains leave from platform 2.", "The museum opens at nine.", "Soup of the day: leek.", "?", "A long tale of trains and of soup, and of a museum that never opened. " * 6]
# The first text is too long; both are too long.
LONG = [("When do the trains leave? " * 12, DOCUMENTS[1]), ("When do the trains leave? " * 12, DOCUMENTS[-1])]
TEXTS = ["The soup was cold.", "What a museum!"]
CORPUS = QUERIES + DOCUMENTS + TEXTS + ["yes no", "the train to the museum leaves at nine and arrives at noon"]
SIZES = dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52, max_position_embeddings=64, hidden_act="gelu")
DECODER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=48, max_position_embeddings=256)
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
SYSTEM = 'Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".'


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    ids = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=list(ids.items()))
    tokenizer.decoder = decoders.WordPiece()
    return transformers.BertTokenizerFast(tokenizer_object=tokenizer)


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace("  ", " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=100, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], unk_token="<unk>"))
    ids = {name: tokenizer.token_to_id(name) for name in ("<s>", "</s>")}
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=list(ids.items()))
    tokenizer.decoder = decoders.Metaspace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>")


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    from tokenizers import Regex
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([*CORPUS, *["yes", "no"] * 40], trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def byte_level_pairs():
    tokenizer = byte_level().backend_tokenizer
    tokenizer.add_special_tokens(["[CLS]", "[SEP]", "[PAD]"])
    ids = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=list(ids.items()))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="[CLS]", eos_token="[SEP]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]")


def without_pooler_tanh(model):
    model.bert.pooler.activation = torch.nn.Identity()


def first_types(model):
    table = model.bert.embeddings.token_type_embeddings.weight
    table[1] = table[0]


def without_tanh(model):
    head, forward = model.classifier, torch.tanh
    def plain(features, **options):
        x = features[:, 0, :]
        return head.out_proj(head.dense(x))
    head.forward = plain


def zeroed_exactly(name):
    def off(model):
        dict(model.named_parameters())[name].zero_()
    return off


def linear_head(model):
    model.head.act = torch.nn.Identity()


def first_token_pooling(model):
    model.config.classifier_pooling = "cls"


def encode_pair(tokenizer, limit):
    return lambda query, document: tokenizer(query, document, truncation="longest_first", max_length=limit)


def encode_prompt(tokenizer, limit):
    def encode(query, document):
        prefix = tokenizer.encode(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n", add_special_tokens=False)
        suffix = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", add_special_tokens=False)
        body = tokenizer.encode(f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}", add_special_tokens=False)
        return {"input_ids": prefix + body[:limit - len(prefix) - len(suffix)] + suffix}
    return encode


# Classes of config and model, tokenizer, encoder, settings, ending of a parameter's name -> factor, features to switch off.
RERANKERS = {
    "bert": ("Bert", "ForSequenceClassification", wordpiece, encode_pair, SIZES | dict(num_labels=1, type_vocab_size=2, layer_norm_eps=0.05),
             {"classifier.weight": 4.0, "classifier.bias": 20.0},
             {"tanh of the pooler": without_pooler_tanh, "bias of the pooler": zero_weights("pooler.dense.bias"), "second type": first_types, "bias of the label": zero_weights("classifier.bias")}),
    "xlm-roberta": ("XLMRoberta", "ForSequenceClassification", unigram, encode_pair, SIZES | dict(num_labels=1, type_vocab_size=1, pad_token_id=1, max_position_embeddings=66, layer_norm_eps=0.05),
                    {"out_proj.weight": 4.0, "out_proj.bias": 20.0},
                    {"tanh": without_tanh, "bias of the dense layer": zero_weights("classifier.dense.bias"), "bias of the label": zero_weights("out_proj.bias")}),
    "distilbert": ("DistilBert", "ForSequenceClassification", wordpiece, None,
                   dict(dim=36, n_layers=2, n_heads=3, hidden_dim=60, max_position_embeddings=64, num_labels=3, id2label={0: "bad", 1: "so-so", 2: "good"}, label2id={"bad": 0, "so-so": 1, "good": 2}),
                   {"classifier.weight": 3.0, "classifier.bias": 3.0}, {"dense layer": zero_weights("pre_classifier.weight"), "bias of labels": zero_weights("classifier.bias")}),
    "modern-bert": ("ModernBert", "ForSequenceClassification", byte_level_pairs, encode_pair,
                    dict(hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=52, max_position_embeddings=64, local_attention=8, norm_eps=0.05,
                         num_labels=1, classifier_pooling="mean", classifier_bias=True),
                    {"classifier.weight": 4.0, "classifier.bias": 20.0, "head.dense.weight": 2.0},
                    {"GELU of the dense layer": linear_head, "norm of the dense layer": same_norms("head.norm"), "bias of the dense layer": zero_weights("head.dense.bias"),
                     "bias of the label": zeroed_exactly("classifier.bias"), "mean": first_token_pooling}),
    "mpnet": ("MPNet", "ForSequenceClassification", unigram, encode_pair, SIZES | dict(num_labels=1, pad_token_id=1, max_position_embeddings=66, layer_norm_eps=0.05),
              {"out_proj.weight": 4.0, "out_proj.bias": 20.0},
              {"tanh": without_tanh, "bias of the dense layer": zero_weights("classifier.dense.bias"), "bias of the label": zero_weights("out_proj.bias")}),
    "qwen3-reranker": ("Qwen3", "ForCausalLM", byte_level, encode_prompt, DECODER | dict(tie_word_embeddings=True), {}, {}),
    "qwen3-labels": ("Qwen3", "ForSequenceClassification", byte_level, None, DECODER | dict(num_labels=1), {}, {}),
}


# In the order of their numbers.
SEEDS = ["bert", "xlm-roberta", "distilbert", "qwen3-reranker", "qwen3-labels", "modern-bert", "mpnet"]


def compute_logits(model, encoded, answer):
    with torch.no_grad():
        logits = model(**{key: torch.tensor([value]) for key, value in encoded.items() if key in ("input_ids", "token_type_ids")}).logits
    return logits[0, -1, answer].float() if answer else logits[0].float()


def make(name, seed):
    kind, ending, tokenizer_of, encoder_of, settings, tuned, features = RERANKERS[name]
    tokenizer = tokenizer_of()
    if "pad_token_id" not in settings:
        settings = settings | dict(pad_token_id=tokenizer.pad_token_id)
    if kind == "ModernBert":  # the defaults belong to a larger vocabulary
        settings = settings | {f"{entry}_token_id": getattr(tokenizer, f"{entry}_token_id") for entry in ("bos", "eos", "cls", "sep")}
    config = getattr(transformers, kind + "Config")(**settings, vocab_size=len(tokenizer), attn_implementation="eager")
    model = getattr(transformers, kind + ending)(config).eval()
    randomize(model, torch.float16, seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            for end, factor in tuned.items():
                if key.endswith(end):
                    p.mul_(factor)
            p.copy_(p.half().float())
    limit = DECODER["max_position_embeddings"] if "head_dim" in settings else 64
    answer = [tokenizer.convert_tokens_to_ids(token) for token in ("yes", "no")] if ending == "ForCausalLM" else None
    inputs = [(query, document) for query in QUERIES for document in DOCUMENTS] + (LONG if encoder_of is encode_pair else []) if encoder_of else [(text,) for text in TEXTS]
    encode = encoder_of(tokenizer, limit) if encoder_of else tokenizer
    encoded = [encode(*texts) for texts in inputs]
    logits = [compute_logits(model, entry, answer) for entry in encoded]
    moved = {}
    for part, change in features.items():
        changed_model = copy.deepcopy(model)
        with torch.no_grad():
            change(changed_model)
        moved[part] = max((compute_logits(changed_model, entry, answer) - row).abs().max().item() for entry, row in zip(encoded, logits))
        print(f"{name}: without {part} a logit moves by {moved[part]:.3f}")
        assert moved[part] >= 100 * TOLERANCE, f"{name} would not notice a missing {part}"
    folder = OUT / name
    os.makedirs(folder, exist_ok=True)
    state = {key: p.half().contiguous() for key, p in model.state_dict().items() if not (answer and settings.get("tie_word_embeddings") and key == "lm_head.weight") and p.is_floating_point()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    shown = {key: value for key, value in model.config.to_dict().items() if value is not None and key not in ("dtype", "_name_or_path", "transformers_version")}
    (folder / "config.json").write_text(json.dumps({**shown, "architectures": [kind + ending], "id2label": model.config.id2label}, indent=1) + "\n")
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "expected.json").write_text(json.dumps({
        "texts": inputs, "ids": [entry["input_ids"] for entry in encoded], "logits": [row.tolist() for row in logits],
        "moved_without": {part: round(by, 3) for part, by in moved.items()}, "made_with": VERSIONS}, indent=None) + "\n")
    if answer:
        (folder / "README.md").write_text("# Qwen3-Reranker, random and tiny\n")
    print(f"{name}: logits {min(row.min().item() for row in logits):.2f} … {max(row.max().item() for row in logits):.2f}")


def convert(name, source):
    """Converts with llama.cpp, which supports the tokenizers of published models only: the tokenizer of Qwen 3 is set by name, others are left out."""
    sys.path[:0] = [source, f"{source}/gguf-py"]
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    folder = OUT / name
    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
    settings = ModelBase.load_hparams(folder, False)
    if name == "modern-bert":  # as in published files
        settings["layer_norm_eps"] = settings["norm_eps"]
    model = kind(folder, gguf.LlamaFileType.MOSTLY_F16, folder / f"{name}.gguf", model_name=name, hparams=settings)
    if "qwen3" in name:
        model.get_vocab_base_pre = lambda tokenizer: "qwen2"
        model.set_vocab = model._set_vocab_gpt2
    else:
        model.set_vocab = lambda: None
    model.write()
    print(f"{name}: {kind.__name__}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--gguf"]:
        logging.disable(logging.INFO)
        for entry in sys.argv[3:] or ["xlm-roberta", "bert", "modern-bert", "qwen3-reranker"]:
            with torch.inference_mode():
                convert(entry, sys.argv[2])
    else:
        for entry in RERANKERS:
            if len(sys.argv) == 1 or entry in sys.argv[1:]:
                make(entry, 170000 + 100 * SEEDS.index(entry))
