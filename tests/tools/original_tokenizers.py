#!/usr/bin/env python3
"""Trains a tokenizer of each kind with PyPI's tokenizers and sentencepiece, on text made here, and writes what
they make of random strings: for tests/js/originals.test.mjs.

    python3 tests/tools/original_tokenizers.py OUT [STRINGS [NAME ...]]
    python3 tests/tools/original_tokenizers.py OUT STRINGS PATH/tokenizer.json

Writes OUT/NAME/tokenizer.json or tokenizer.model, and OUT/NAME/cases: u32 number; per string u32 bytes, u32
number of ids, the text, the ids. Tokens that are looked for in a text are found in all strings. Beside tokenizer.model
OUT/NAME/gguf.json: the metadata of its pieces. Of a tokenizer.json that is there already: OUT/cases.
"""
import json
import pathlib
import random
import re
import struct
import sys
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

WORDS = """Hello world the quick brown fox jumps over lazy dogs it's DON'T we'll they're I'm he'd you've naïve café Straße ÉCOLE éàü
İstanbul ΣΊΣΥΦΟΣ привет мир नमस्ते हिन्दी क्षत्रिय ภาษาไทย 日本語テキスト 中文字符 한국어 안녕하세요 שלום مرحبا 1234567 3.14159 2024-01-02
foo_bar fooBar FooBAR HTTPServer x² Ⅷ ½ ①② ﬁ ﷺ ｱｲｳ ＡＢＣ a̐éö̲ q̣̇ ḍ̇ Å Å ñ ñ 가각 가각 👨‍👩‍👧 aaaaaaaa aaaaaaaaaaaaaaaa 🇮🇳 😀 🏳️‍🌈 é ▁ ▁▁a <s> </s> <pad> [CLS] [MASK]
<|im_start|> <|endoftext|> ## ##ing http://a.b/c?d=e&f#g \\n {"a":1} <tag> <left> <right> <word> a<word>b 你好，世界。 ``quoted''""".split()
SPACES = [' '] * 8 + [''] * 6 + ['  ', '   ', '\n', '\n\n', '\t', '\r\n', ' \n ', '\u00a0', '\u3000', '\u2003', '\u200b', '\u200d', '\u2028', '\u0085', '\x00', '\x0b', '\x0c']
MARKS = [0x300, 0x301, 0x302, 0x308, 0x323, 0x327, 0x328, 0x345, 0x338, 0x3099, 0x94d, 0x93c, 0x591, 0x64b, 0x20d0, 0x302e, 0x5b0]


def stable():
    """Characters by category that have had it since Unicode 3.2: the originals have tables of many versions."""
    found = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category not in ('Cn', 'Cs', 'Co') and unicodedata.ucd_3_2_0.category(chr(code)) == category:
            found.setdefault(category, []).append(chr(code))
    return found


STABLE = stable()
CATEGORIES = sorted(STABLE)


def character(r):
    kind = r.random()
    if kind < 0.3:
        return chr(r.randrange(32, 127))
    if kind < 0.37:
        return chr(r.randrange(0x20)) if r.random() < 0.3 else chr(r.randrange(0x7f, 0x220))
    if kind < 0.48:
        return chr(r.choice(MARKS))
    if kind < 0.55:
        return chr(r.randrange(0x905, 0x94e))
    if kind < 0.62:
        return chr(r.randrange(0x4e00, 0x9fa5))
    if kind < 0.66:
        return chr(r.randrange(0xac00, 0xd7a4))
    if kind < 0.7:
        return chr(r.randrange(0x1f300, 0x1f650))
    if kind < 0.71:
        return '\ufffd'  # what lone surrogates become
    return r.choice(STABLE[r.choice(CATEGORIES)])


def string(r):
    out = []
    for _ in range(r.choice([1, 2, 3, 5, 8, 13])):
        kind = r.random()
        if kind < 0.5:
            out.append(r.choice(WORDS))
        elif kind < 0.6:
            out.append(character(r) * r.choice([1, 2, 3, 7, 40]))
        else:
            out.append(''.join(character(r) for _ in range(r.choice([1, 2, 3, 6]))))
        out.append(r.choice(SPACES))
    return ''.join(out)


# One of each kind gets a megabyte of one character too, where many strings are asked for.
RUNS = 'gpt-2 llama-2 gemma-3 unigram bert-uncased sp-bpe sp-unigram'.split()


def strings(n, seed, runs=False):
    r = random.Random(seed)
    one = lambda: re.sub('a?<word>b?', ' \\g<0> ', string(r))
    fixed = ['', ' ', 'a', '  a  ', '\n', 'a' * 3000, ' ' * 500, 'é' * 700, 'ab ' * 300, '\u0301\u0323' * 200, '가' * 300, '1' * 1000]
    if runs and n >= 10_000:
        fixed += ['a' * 2**20, ' ' * 2**20]
    return fixed + [one() for _ in range(max(0, n - len(fixed)))]


def corpus():
    r = random.Random(7)
    return [' '.join(r.choice(WORDS) for _ in range(12)) for _ in range(2000)]


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL)
DEEPSEEK3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + TAIL
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL


def split(*sources):
    parts = [pre_tokenizers.Split(Regex(source), 'isolated') for source in sources]
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre, normalizer=None, added=(), **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=['<|endoftext|>']))
    t.add_tokens(list(added))
    return t


def rows_of_marks(made, most):
    """Pieces of 2 to `most` ▁, which merge two by two, and are looked for in the text too, as Gemma has them."""
    vocab, added = made['model']['vocab'], made['added_tokens']
    for n in range(2, most + 1):
        vocab.setdefault('▁' * n, len(vocab))
        made['model']['merges'].extend([['▁' * i, '▁' * (n - i)] for i in range(1, n)])
        added.append(dict(id=vocab['▁' * n], content='▁' * n, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False))
    added.sort(key=lambda token: token['id'])


def characters(normalizer, pre, decoder, rows=0):
    t = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    # Without words of its own the trainer takes whole lines, as SentencePiece doesn't: it is given words.
    words = [word for line in corpus() for word in line.replace(' ', ' \n').split('\n')]
    t.train_from_iterator(words, trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=['<unk>', '<s>', '</s>']))
    made = json.loads(t.to_str())
    for i in range(256):  # tokens of bytes are no special ones
        made['model']['vocab'].setdefault(f'<0x{i:02X}>', len(made['model']['vocab']))
    rows_of_marks(made, rows)
    return Tokenizer.from_str(json.dumps(made))


def wordpiece(**bert):
    t = Tokenizer(models.WordPiece(unk_token='[UNK]'))
    t.normalizer = normalizers.BertNormalizer(**bert)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=900, show_progress=False, special_tokens=['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']))
    t.post_processor = processors.TemplateProcessing(single='[CLS] $A [SEP]', special_tokens=[('[CLS]', 2), ('[SEP]', 3)])
    return t


def unigram(normalizer, pre):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=500, show_progress=False, special_tokens=['<pad>', '<unk>', '</s>'], unk_token='<unk>'))
    # Two ways to write a text may sum to nearly the same score. Multiples of 2^-13 have at most 15 digits, which the original
    # reads exactly, and their sums are exact in f32 too: which way wins no longer hangs on how numbers are rounded.
    made = json.loads(t.to_str())
    for piece in made['model']['vocab']:
        piece[1] = round(piece[1] * 8192) / 8192
    return Tokenizer.from_str(json.dumps(made))


ADDED = [AddedToken('<left>', lstrip=True, normalized=False), AddedToken('<right>', rstrip=True, normalized=False),
         AddedToken('<word>', single_word=True, normalized=False), AddedToken('<tag>', special=True), AddedToken('ello', normalized=False)]
TO_MARKS = normalizers.Replace(' ', '▁')
MARKS_BACK = [decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse()]

HUGGING_FACE = {
    'gpt-2': lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    'gpt-2-prefix': lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    'neox': lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC()),
    'llama-3': lambda: byte_level(split(LLAMA3), ignore_merges=True),
    'qwen-2': lambda: byte_level(split(LLAMA3.replace('{1,3}', '')), normalizers.NFC()),
    'nfkc': lambda: byte_level(split(LLAMA3), normalizers.NFKC()),
    'nfkd': lambda: byte_level(split(LLAMA3), normalizers.NFKD()),
    'qwen-3.5': lambda: byte_level(split(QWEN35), normalizers.NFC()),
    'gpt-4o': lambda: byte_level(split(GPT4O)),
    'deepseek-3': lambda: byte_level(split(r'\p{N}{1,3}', '[一-龥぀-ゟ゠-ヿ]+', DEEPSEEK3)),
    'starcoder': lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    'falcon': lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation('contiguous'), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex('[0-9][0-9][0-9]'), 'isolated')])),
    'bloom': lambda: byte_level(split(r' ?[^(\s|[.,!?…。，、।۔،])]+')),
    # <word> stands alone or beside a letter of WORDS: marks and joiners are part of words to the original alone.
    'added': lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), added=ADDED),
    'llama-2': lambda: characters(normalizers.Sequence([normalizers.Prepend('▁'), TO_MARKS]), None, decoders.Sequence([*MARKS_BACK, decoders.Strip(' ', 1, 0)])),
    'metaspace-first': lambda: characters(TO_MARKS, pre_tokenizers.Metaspace('▁', prepend_scheme='first', split=False), decoders.Metaspace()),
    'gemma': lambda: characters(TO_MARKS, pre_tokenizers.Split(' ', 'merged_with_previous'), decoders.Sequence(MARKS_BACK)),
    'gemma-3': lambda: characters(TO_MARKS, pre_tokenizers.Split(' ', 'merged_with_previous'), decoders.Sequence(MARKS_BACK), rows=6),
    'bert-uncased': lambda: wordpiece(lowercase=True),
    'bert-cased': lambda: wordpiece(lowercase=False),
    'unigram': lambda: unigram(normalizers.Sequence([normalizers.Replace(Regex(' {2,}'), ' ')]), pre_tokenizers.Metaspace()),
    'stripped': lambda: unigram(normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(' {2,}'), '▁')]), pre_tokenizers.Metaspace()),
    'stripped-end': lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.Strip(left=False, right=True)),
    'xlm-roberta': lambda: unigram(normalizers.NFKC(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])),
    'albert': lambda: unigram(normalizers.Sequence([normalizers.Replace('``', '"'), normalizers.Replace("''", '"'), normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace(Regex(' {2,}'), ' ')]), pre_tokenizers.Metaspace()),
}

SENTENCE_PIECE = {
    'sp-bpe': dict(model_type='bpe', byte_fallback=True, normalization_rule_name='identity', remove_extra_whitespaces=False, split_digits=True),
    'sp-bpe-nfkc': dict(model_type='bpe', normalization_rule_name='nmt_nfkc', user_defined_symbols=['<tag>', '<word>']),
    'sp-bpe-rows': dict(model_type='bpe', byte_fallback=True, normalization_rule_name='identity', add_dummy_prefix=False, remove_extra_whitespaces=False,
                        user_defined_symbols=['▁▁', '▁▁▁', '▁▁▁▁', '\n\n', '<tag>']),
    'sp-unigram': dict(model_type='unigram', normalization_rule_name='nmt_nfkc'),
    'sp-unigram-bytes': dict(model_type='unigram', byte_fallback=True, normalization_rule_name='identity', add_dummy_prefix=False, remove_extra_whitespaces=False),
    'sp-unigram-folded': dict(model_type='unigram', normalization_rule_name='nmt_nfkc_cf', user_defined_symbols=['<tag>']),
}


def last_field(message, wanted):
    """The bytes of a field of a protocol buffer, the last of that number; none: b''."""
    found, at = b'', 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            at += 1
            value |= (message[at - 1] & 127) << shift
            if message[at - 1] < 128:
                return value
            shift += 7

    while at < len(message):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            varint()
            continue
        size = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        if number == wanted:
            found = message[at:at + size]
        at += size
    return found


def gguf_metadata(t, add_dummy_prefix=True, remove_extra_whitespaces=True, user_defined_symbols=(), **_):
    """What a GGUF file says of these pieces, types as llama.cpp's converters number them."""
    ids = range(t.get_piece_size())
    kinds = [(t.is_unknown, 2), (t.is_control, 3), (lambda i: t.id_to_piece(i) in user_defined_symbols, 4), (t.is_unused, 5), (t.is_byte, 6)]
    charsmap = last_field(last_field(t.serialized_model_proto(), 3), 2)
    return dict(tokens=[t.id_to_piece(i) for i in ids], scores=[t.get_score(i) for i in ids],
                types=[next((kind for own, kind in kinds if own(i)), 1) for i in ids], unk=t.unk_id(), eos=t.eos_id(),
                prefix=add_dummy_prefix, rows=remove_extra_whitespaces, charsmap=list(charsmap))


def write(folder, texts, ids):
    parts = [struct.pack('<I', len(texts))]
    for text, own in zip(texts, ids):
        raw = text.encode()
        parts.append(struct.pack('<II', len(raw), len(own)) + raw + struct.pack(f'<{len(own)}I', *own))
    (folder / 'cases').write_bytes(b''.join(parts))


def main():
    out, n = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    wanted = sys.argv[3:]
    if wanted and wanted[0].endswith('.json'):
        texts = strings(n, 2000, True)
        write(out, texts, [e.ids for e in Tokenizer.from_file(wanted[0]).encode_batch(texts, add_special_tokens=False)])
        return
    for i, (name, make) in enumerate(HUGGING_FACE.items()):
        if wanted and name not in wanted:
            continue
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        t = make()
        t.save(str(folder / 'tokenizer.json'))
        texts = strings(n, i, name in RUNS)
        write(folder, texts, [e.ids for e in t.encode_batch(texts, add_special_tokens=False)])
    for i, (name, options) in enumerate(SENTENCE_PIECE.items()):
        if wanted and name not in wanted:
            continue
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        prefix = str(folder / 'tokenizer')
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_prefix=prefix, vocab_size=700,
                                                 hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
        t = sentencepiece.SentencePieceProcessor(model_file=prefix + '.model')
        (folder / 'gguf.json').write_text(json.dumps(gguf_metadata(t, **options)))
        texts = strings(n, 1000 + i, name in RUNS)
        write(folder, texts, t.encode(texts))
    print(sentencepiece.__version__, unicodedata.unidata_version)


if __name__ == '__main__':
    main()
