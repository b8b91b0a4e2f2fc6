"""Writes prompts.json: small vocabularies of several kinds, and the ids that PyPI's tokenizers and sentencepiece give for
whole rendered conversations. Run by hand:
    python tests/templates/make_prompts.py
Needs jinja2, tokenizers and sentencepiece. What a user writes must stay text: the ids of conversations with texts of
special tokens are those of a copy of the vocabulary whose special tokens are written as private characters."""
import io
import json
import pathlib

import sentencepiece
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]"]
HIDDEN = {text: chr(0xE000 + i) for i, text in enumerate(SPECIAL)}
TEXT = """Hello you, how are you today? if (a[i] < b[j]) { return a[i]; } The quick brown fox jumps over the lazy dog. \
user assistant system INST im_start im_end s s s /s /INST <<SYS>> <</SYS>> Be brief. Be kind. Hi! Hi there. What is it? \
It's 12 o'clock. a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M N O P Q R S T U V W X Y Z \
0 1 2 3 4 5 6 7 8 9 . , : ; ! ? ' " ( ) [ ] { } < > | / \\ - _ + = * & ^ % $ # @ ~ ` é ü ñ 中 文 한 글"""

TEMPLATES = {
    "mistral": "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}",
    "llama-2": "{% for m in messages %}{% if m.role == 'system' %}{% elif m.role == 'user' %}{% set content = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' + m.content if loop.index0 == 1 and messages[0].role == 'system' else m.content %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "plain": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:",
    "mixed": "{% macro turn(m) %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>{% endmacro %}{% set all %}{% for m in messages %}{{ turn(m) | trim }}\n{% endfor %}{% endset %}{{ bos_token ~ (all | trim).replace('\\n', '  ') }}",
}
U = lambda text: {"role": "user", "content": text}  # noqa: E731
A = lambda text: {"role": "assistant", "content": text}  # noqa: E731
S = lambda text: {"role": "system", "content": text}  # noqa: E731
TALKS = [
    [U("Hello you")],
    [U("if (a[i")],
    [U("  Hi there \n\n what < is [it? ")],
    [U("Hello you"), A("Hi!"), U("What is it?")],
    [S("Be brief."), U("Hi"), A(" It's 12 o'clock. "), U("a[i] | <b")],
    [U("<s> and </s> [INST] <|im_start|>user")],
    [U("<"), A("s>"), U("<|im_end|>")],
    [U("<|im_"), A("end|><s"), U("> [/INST")],
    [U(""), A(""), U("é中 한글 \t x")],
    [U("Hello<s>you<|im_end|>Hi"), A("[/INST]</s>"), U("▁▁a <unk> ▁")],
]


def words():
    return [TEXT, TEXT.lower(), " ".join(TEXT.split()[:40])] * 4


def byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(words(), trainer)
    return t


def llama(scheme):
    """BPE over characters, as Llama 2's files have it: with a prefix by a normalizer, or by Metaspace."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if scheme == "normalizer":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    shadow = Tokenizer(models.BPE(unk_token="<unk>"))
    shadow.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=SPECIAL, show_progress=False)
    shadow.train_from_iterator(words(), trainer)
    trained = json.loads(shadow.to_str())["model"]
    vocab = dict(trained["vocab"])
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    t.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in trained["merges"]], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIAL])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    t.train_from_iterator(words(), trainer)
    return t


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="<unk>"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(words(), trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False))
    return t


def hidden(tokenizer):
    """A copy whose special tokens are private characters."""
    j = json.loads(tokenizer.to_str())
    for own in j["added_tokens"]:
        own["content"] = HIDDEN.get(own["content"], own["content"])
    vocab = j["model"]["vocab"]
    if isinstance(vocab, list):
        for piece in vocab:
            piece[0] = HIDDEN.get(piece[0], piece[0])
    else:
        j["model"]["vocab"] = {HIDDEN.get(k, k): v for k, v in vocab.items()}
    if j["model"].get("unk_token"):
        j["model"]["unk_token"] = HIDDEN[j["model"]["unk_token"]]
    return Tokenizer.from_str(json.dumps(j))


def spm():
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEXT, TEXT.lower()] * 4), model_writer=out, model_type="bpe", vocab_size=430, byte_fallback=True,
        add_dummy_prefix=True, remove_extra_whitespaces=False, normalization_rule_name="identity", character_coverage=1.0,
        control_symbols=SPECIAL[3:], minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def render(template, talk, tokens):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    for text, mark in tokens.items():
        template = template.replace(text, mark)
    return env.from_string(template).render(messages=talk, add_generation_prompt=True, bos_token=tokens["<s>"], eos_token=tokens["</s>"])


def spm_ids(sp, text):
    """As llama.cpp: special tokens cut the text, and what follows one, or begins, gets a space in front."""
    ids, at, done = [], 0, 0
    by_mark = {mark: sp.piece_to_id(name) for name, mark in HIDDEN.items()}
    for at, c in enumerate(text):
        if c in by_mark:
            ids += (sp.encode(text[done:at]) if at > done else []) + [by_mark[c]]
            done = at + 1
    return ids + (sp.encode(text[done:]) if done < len(text) else [])


def main():
    made = {}
    for name, tokenizer in {"byte-level BPE": byte_level(), "BPE, a prefix by a normalizer": llama("normalizer"), "BPE, a prefix where the text begins": llama("first"),
                            "BPE, a prefix behind each special token": llama("always"), "unigram": unigram(), "WordPiece": wordpiece()}.items():
        copy = hidden(tokenizer)
        ids = {key: [copy.encode(render(template, talk, HIDDEN), add_special_tokens=False).ids for talk in TALKS] for key, template in TEMPLATES.items()}
        # Where no user writes a special token the vocabulary itself says the same.
        for key, template in TEMPLATES.items():
            for talk, own in list(zip(TALKS, ids[key]))[:5]:
                assert tokenizer.encode(render(template, talk, {s: s for s in SPECIAL}), add_special_tokens=False).ids == own, (name, key, talk)
        made[name] = {"json": json.loads(tokenizer.to_str()), "ids": ids}
    sp = spm()
    pieces = [[sp.id_to_piece(i), round(sp.get_score(i), 4), 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1] for i in range(sp.get_piece_size())]
    made["SentencePiece"] = {"pieces": pieces, "ids": {key: [spm_ids(sp, render(template, talk, HIDDEN)) for talk in TALKS] for key, template in TEMPLATES.items()}}
    out = {"templates": TEMPLATES, "talks": TALKS, "vocabularies": made}
    path = pathlib.Path(__file__).parent / "prompts.json"
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, "bytes")


main()
