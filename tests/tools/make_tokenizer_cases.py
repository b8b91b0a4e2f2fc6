#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/*.json: small tokenizers trained here by SentencePiece and by Hugging
Face's tokenizers, and what those two make of texts. tests/tools/make_tokn.mjs turns them into test data.

    pip install sentencepiece==0.2.3 protobuf==7.36.2 tokenizers==0.23.3
    python3 tests/tools/make_tokenizer_cases.py [FOLDER OF A MODEL]

With the folder of shared/data/models/chat-5m it also writes chat-5m.json, cases for that tokenizer.
The same versions write the same bytes.
"""
import io
import itertools
import json
import pathlib
import random
import sys

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / 'golden' / 'tokenizers'

SENTENCES = """
The quick brown fox jumps over the lazy dog, and the dog doesn't mind.
Once upon a time there was a little girl who lived by the sea with her grandmother.
"I don't know," said the girl, "but I'm sure they'll come back; we've seen the boat!"
She'd asked him twice: what's the time? He'd said it's ten past three, isn't it?
The children were playing in the garden when the rain began to fall on the trees.
In 1969, 3 people flew 384,400 km to the moon; it took them 75 hours and 49 minutes.
There are 10 apples, 20 oranges and 100 grapes in the basket that they brought.
for (int i = 0; i < 10; i++) { total += values[i]; }  /* the sum of them */
    if x == None:\n        return [y for y in other if y != 0]
Die Straße führt über den Fluß; später, sagte die Müllerin, wird es kühler.
Où est la bibliothèque ? Elle est à côté de l'école, près du théâtre.
El niño comió una manzana; mañana comerá otra. ¿Cómo estás? ¡Muy bien!
Привет, мир! Как дела? Сегодня хорошая погода, и мы идём гулять.
एक होता राजा आणि एक होती राणी. त्यांना दोन मुले होती.
एक समय की बात है, एक गाँव में एक किसान रहता था।
むかしむかし、あるところに、おじいさんとおばあさんが住んでいました。
今天天气很好，我们去公园玩吧。
안녕하세요, 세상! 오늘 기분이 어때요?
""".strip('\n').split('\n')

# What is easily got wrong: white space at every place, contractions, digits, marks, joiners, special tokens.
EDGES = [
    '', ' ', '  ', '   ', '\t', '\n', '\n\n', ' \n', '\n ', ' \n \n ', '\r\n', 'a', ' a', 'a ', '  a', 'a  ', ' a b ', 'a  b   c    d',
    'a\n\nb', 'a \n b', 'a\u00a0b', 'a\u3000\u3000b', 'a \u3000b', '\u2003x', '\u0085x', 'x\u200by', '\ufeffx\ufeff', '\u00ad', 'a\u0000b',
    "'s", "it's", "it''s", "IT'S", "'sx", " 's", "!'s", "we'll've'd", "'rex", "'r", "'", "''", "'lla", 'it\u2019s',
    '1', '12', '123', ' 1 2 3', '1a2b', '\u0661\u0662', '\u2167', 'x\u00b2', '\u00bd', '\u0967\u0968',
    '...', '!?', ' !', '! !', 'a!b', '--- ---', '\u20ac5', '\u00e9', 'e\u0301', '\u0301', 'a\u0301\u0302b',
    '\u0939\u093f\u0928\u094d\u0926\u0940', '\U0001f600', '\U0001f468\u200d\U0001f469\u200d\U0001f467', '\U0001f1ee\U0001f1f3', ' \U0001f600 ', '\U0001d7d8\U0001d400', '\U000e0041',
    '\u2581', 'a\u2581b', ' \u2581 ', '<0x41>', '<s>', '</s>', '<unk>', '<s>a</s>', '<|user|>', ' <|user|>hi<|end|> ', '<|use', '<|end|><|end|>',
    '<sep>', 'a<sep>b', ' <sep> b', '<sep><sep>', '[tag]', 'x[tag]y', '[tag][tag]x', '[tag', 'aa[ta[tag]g]', '\u0120', '\ufffd',
]


def texts(seed, count):
    """Edge cases, then pieces of sentences stuck together."""
    rng = random.Random(seed)
    made = list(EDGES)
    while len(made) < len(EDGES) + count:
        parts = []
        for _ in range(rng.randint(1, 5)):
            sentence = rng.choice(SENTENCES)
            at = rng.randrange(len(sentence))
            parts.append(rng.choice([sentence[at:at + rng.randint(1, 30)], rng.choice(EDGES), sentence[at:at + 3].upper()]))
        made.append(''.join(parts))
    return made


def write(name, made):
    path = OUT / f'{name}.json'
    versions = f'sentencepiece {sentencepiece.__version__}, tokenizers {tokenizers.__version__}'
    lines = [f'"made_by": {json.dumps(versions)}']
    for key, value in made.items():
        if isinstance(value, list):
            rows = ',\n'.join(json.dumps(row, ensure_ascii=True) for row in value)
            lines.append(f'{json.dumps(key)}: [\n{rows}\n]')
        else:
            lines.append(f'{json.dumps(key)}: {json.dumps(value, ensure_ascii=True)}')
    path.write_text('{\n' + ',\n'.join(lines) + '\n}\n')
    print(f'{path.name}: {path.stat().st_size} bytes')


def sentencepiece_tokenizer(name, seed, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=model, model_type='bpe', normalization_rule_name='identity',
        remove_extra_whitespaces=False, user_defined_symbols=['<sep>', '[tag]', 'ab'], control_symbols=['<|user|>', '<|end|>'],
        num_threads=1, minloglevel=2, **options)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cases = [[text, processor.encode(text)] for text in texts(seed, 120)]
    rng = random.Random(seed)
    unknown = {processor.unk_id()}
    decoded = [[ids, processor.decode(ids)] for ids in
               [ids for _, ids in cases] + [[rng.randrange(len(proto.pieces)) for _ in range(8)] for _ in range(60)]
               if not unknown.intersection(ids)]
    write(name, {
        'kind': 'spm',
        'pieces': [[p.piece, p.score, p.type] for p in proto.pieces],
        'bos': processor.bos_id(), 'eos': processor.eos_id(), 'unk': processor.unk_id(),
        'add_space': proto.normalizer_spec.add_dummy_prefix, 'byte_fallback': proto.trainer_spec.byte_fallback,
        'cases': cases,
        # SentencePiece writes a U+FFFD for each byte of an ill-formed sequence: another question than its own.
        'decoded': [row for row in decoded if '\ufffd' not in row[1]],
    })


def byte_level_cases(tokenizer, seed):
    cases = []
    for text in texts(seed, 120):
        for plain in (False, True):
            tokenizer.encode_special_tokens = plain
            cases.append([text, tokenizer.encode(text, add_special_tokens=False).ids, not plain])
    rng = random.Random(seed)
    size = tokenizer.get_vocab_size()
    decoded = [[rng.randrange(size) for _ in range(8)] for _ in range(60)]
    return {'cases': cases, 'decoded': [[ids, tokenizer.decode(ids, skip_special_tokens=True)] for ids in decoded]}


# How models cut text into words, as their tokenizer.json files say it. js/text/tokenizers/split.js knows them by the
# same names.
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {
    'gpt-2': pre_tokenizers.ByteLevel(add_prefix_space=False),
    'digits': pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    'llama-3': pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA_3 % r'\p{N}{1,3}'), 'isolated', invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    'qwen-2': pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA_3 % r'\p{N}'), 'isolated', invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
}
# Of every class, and what the expressions name; all of it older than any of these programs.
CHARACTERS = (" \t\n\r\v'sS\u017ftTdDmMrReEvVlLxX1290\u00bd\u2167\u0663\u00e9\u00df\u03a9\u6f22\u0621!?._-\u2014\u2026"
              "\u20ac\U0001f600\u0301\u200b\u00a0\u3000\u2028\u0085\u2581\U0001d7d8\u212a")


def split_cases(seed):
    """Where words end, in bytes."""
    rng = random.Random(seed)
    made = texts(seed, 100)
    for _ in range(500):
        few = rng.sample(CHARACTERS, rng.randint(1, 6)) + [' ', "'"][:rng.randint(0, 2)]
        made.append(''.join(rng.choice(few) for _ in range(rng.randint(1, 14))))

    def ends(split, text):
        words = [text[begin:end] for _, (begin, end) in split.pre_tokenize_str(text)]
        assert ''.join(words) == text, (text, words)
        return list(itertools.accumulate(len(word.encode()) for word in words))
    write('splits', {'kind': 'splits', 'names': list(SPLITS),
                     'cases': [[text, *[ends(split, text) for split in SPLITS.values()]] for text in made]})


def byte_level_tokenizer(name, seed, ignore_merges, split='gpt-2'):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = SPLITS[split]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(SENTENCES * 3, trainers.BpeTrainer(
        vocab_size=560, special_tokens=['<s>', '<|user|>', '<|end|>'], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2, show_progress=False))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ['[tag]', '[tag][tag]', '<sep>']])
    tokenizer.post_processor = processors.TemplateProcessing(single='<s> $A', special_tokens=[('<s>', 0)])
    made = json.loads(tokenizer.to_str())
    if ignore_merges:
        # Words that no merge leads to any more: only a look-up of the whole word finds them.
        made['model']['merges'] = made['model']['merges'][:150]
    tokenizer = Tokenizer.from_str(json.dumps(made))
    write(name, {'kind': 'bpe', 'tokenizer': made, **byte_level_cases(tokenizer, seed)})


sentencepiece_tokenizer('spm', 1, vocab_size=620, byte_fallback=True)
sentencepiece_tokenizer('spm-unknown', 2, vocab_size=400, byte_fallback=False, add_dummy_prefix=False)
byte_level_tokenizer('bpe', 3, ignore_merges=False)
byte_level_tokenizer('bpe-words', 4, ignore_merges=True)
byte_level_tokenizer('bpe-llama-3', 5, ignore_merges=True, split='llama-3')
split_cases(6)
for folder in sys.argv[1:2]:
    chat = Tokenizer.from_file(str(pathlib.Path(folder) / 'tokenizer.json'))
    write('chat-5m', {'kind': 'shared', **byte_level_cases(chat, 5)})
