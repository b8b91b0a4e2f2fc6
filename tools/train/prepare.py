"""Converts texts to training tokens.

    python tools/train/prepare.py ../shared/data build/train tokenizer [--of models/chat.bq4]
    python tools/train/prepare.py ../shared/data build/train valid
    python tools/train/prepare.py ../shared/data build/train broad
    python tools/train/prepare.py ../shared/data build/train mixed
    python tools/train/prepare.py ../shared/data build/train chat

`tokenizer` trains a byte-level BPE of 4,096 tokens on the public texts, or copies that of a checkpoint (`--of`),
which is required for training from this checkpoint. `broad`, `mixed` and `chat` each write NAME.npz: `ids` (uint16,
all documents one after another), `weights` (uint8, loss weight in percent) and `starts` (int64, offset of each
document). `valid` contains dialogues that no mix contains. `chat` also writes words.txt, the words known to judge.py.
"""

import argparse
import os
import random
import re
from collections import Counter

import numpy as np
from tokenizers import Tokenizer

import sources
import tales
import talk
from checkpoint import tokenizer_of
from heldout import HeldOut
from tiny import train_bpe

EOT, USER, ASSISTANT, END = range(4)
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# Questions that openings.txt answers.
ANSWERED_BY_OPENINGS = re.compile(r"\b(jokes?|laugh|funny|robot|human|name|story|sing)\b", re.I)


class Mix:
    """A list of documents with the loss weight (percent) of their user turns; assistant turns have 100 percent."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.docs = []
        self.held_out = HeldOut()
        self.removed = 0

    def add(self, name, docs, times=1.0, user=10):
        """Adds `docs` `times` times; the fraction is a random sample. Documents with held-out prompts are omitted."""
        docs = list(docs)
        selected = docs * int(times) + self.rng.sample(docs, int(len(docs) * (times % 1)))
        before = len(self.docs)
        for d in selected:
            if not isinstance(d, str) and any(self.held_out.prompt_in(t) for t in d[::2]):
                self.removed += 1
            else:
                self.docs.append((d, user))
        chars = sum(len(d) if isinstance(d, str) else sum(map(len, d)) for d in selected)
        print(f"{name:14} {len(self.docs) - before:7} documents {chars / 1e6:6.2f} M characters")

    def save(self, path, tokenizer):
        """Writes the tokens in random order of documents."""
        self.rng.shuffle(self.docs)
        pieces = sorted({p for d, _ in self.docs for p in ([d] if isinstance(d, str) else d)})
        ids_of = dict(zip(pieces, (e.ids for e in tokenizer.encode_batch(pieces))))
        ids, weights, starts = [], [], []
        for doc, user in self.docs:
            starts.append(len(ids))
            if isinstance(doc, str):
                new = ids_of[doc]
                ids += new + [EOT]
                weights += [100] * (len(new) + 1)
                continue
            for i, turn in enumerate(doc):
                new = ids_of[turn]
                ids += [ASSISTANT if i % 2 else USER] + new + [END]
                weights += [0] + [100 if i % 2 else user] * (len(new) + 1)
            ids.append(EOT)
            weights.append(0)
        np.savez(path, ids=np.array(ids, np.uint16), weights=np.array(weights, np.uint8),
                 starts=np.array(starts, np.int64))
        print(f"{path}: {len(ids)} tokens, {len(starts)} documents, {self.removed} documents with held-out prompts removed")

    def save_words(self, path, texts, minimum=3):
        """Writes all words of the mix, and those that are in `texts` at least `minimum` times."""
        words = {w for d, _ in self.docs for w in WORD.findall((d if isinstance(d, str) else " ".join(d)).lower())}
        counts = Counter(w for text in texts for w in WORD.findall(text.lower()))
        words |= {w for w, n in counts.items() if n >= minimum}
        with open(path, "w", encoding="utf8") as f:
            f.write("\n".join(sorted(words)) + "\n")
        print(f"{path}: {len(words)} words")


def split(docs, count, seed):
    """Returns documents for training and for validation."""
    docs = list(docs)
    random.Random(seed).shuffle(docs)
    return docs[count:], docs[:count]


def train_tokenizer(data, out):
    """Trains the tokenizer on the public texts."""
    rng = random.Random(1)
    texts = ["\n".join(t) for t in sources.self_dialogue(data)[::2] + sources.personas(data) * 2]
    texts += [t for _, t in sources.stories(data)] * 3 + rng.sample(sources.books(data), 800)
    texts += ["\n".join(t) for t in sources.personality(data) * 4 + sources.chatterbot(data) * 2]
    texts += [u for label in sources.intents(data).values() for u in label]
    train_bpe(texts, 4096).save(f"{out}/tokenizer.json")


def dialogues(data):
    """Returns (training, validation) of self-dialogue and of personas."""
    return split(sources.self_dialogue(data), 300, 1), split(sources.personas(data), 60, 1)


def write_valid(data, out, tokenizer):
    """Writes dialogues that no mix contains."""
    (_, talks), (_, personas) = dialogues(data)
    mix = Mix(1)
    mix.add("valid", talks + personas, user=100)
    mix.save(f"{out}/valid.npz", tokenizer)


def write_broad(data, out, tokenizer):
    """Writes conversations between people, and stories."""
    (talks, _), (personas, _) = dialogues(data)
    mix = Mix(2)
    mix.add("self-dialogue", talks, 1, user=60)
    mix.add("personas", personas, 2, user=30)
    mix.add("orders", sources.orders(data), 0.3)
    mix.add("personality", sources.personality(data), 6)
    mix.add("chatterbot", sources.chatterbot(data), 2)
    mix.add("stories", (f"{title}\n{text}\n" for title, text in sources.stories(data)), 1.5)
    mix.add("books", sources.books(data), 0.5)
    mix.add("sentences", ("\n".join(g) for g in zip(*[iter(sources.sentences(data))] * 6)), 0.5)
    mix.save(f"{out}/broad.npz", tokenizer)


def conversation_sources(data):
    """Returns training dialogues of self-dialogue and of personas, the generator of conversations, and its random generator."""
    (talks, _), (personas, _) = dialogues(data)
    small_talk = [p for p in sources.personality(data) + sources.chatterbot(data)
                  if len(p[1]) < 120 and not ANSWERED_BY_OPENINGS.search(p[0])]
    rng = random.Random(4)
    return talks, personas, talk.Talker(rng, sources.intents(data), small_talk), rng


def write_mixed(data, out, tokenizer):
    """Writes conversations of this assistant and conversations between people, half of each."""
    talks, personas, talker, rng = conversation_sources(data)
    mix = Mix(5)
    mix.add("conversations", (talker.conversation() for _ in range(20000)))
    mix.add("tales", (tales.talk(rng) for _ in range(2500)))
    mix.add("self-dialogue", talks, 0.7, user=30)
    mix.add("personas", personas, 2, user=20)
    mix.add("orders", sources.orders(data), 0.2)
    mix.add("stories", (f"{title}\n{text}\n" for title, text in sources.stories(data)), 1)
    mix.add("books", sources.books(data), 0.3)
    mix.add("sentences", ("\n".join(g) for g in zip(*[iter(sources.sentences(data))] * 6)), 0.1)
    mix.save(f"{out}/mixed.npz", tokenizer)


def write_chat(data, out, tokenizer):
    """Writes conversations of this assistant, and small amounts of the other texts."""
    talks, personas, talker, rng = conversation_sources(data)
    mix = Mix(3)
    mix.add("conversations", (talker.conversation() for _ in range(70000)))
    mix.add("tales", (tales.talk(rng) for _ in range(10000)))
    mix.add("self-dialogue", [t for t in talks if 40 < sum(map(len, t)) / len(t) < 120], 0.25, user=20)
    mix.add("personas", personas, 2)
    mix.add("orders", sources.orders(data), 0.2)
    mix.add("stories", (f"{title}\n{text}\n" for title, text in sources.stories(data)), 0.7)
    mix.add("books", sources.books(data), 0.1)
    mix.save(f"{out}/chat.npz", tokenizer)
    mix.save_words(f"{out}/words.txt", ["\n".join(t) for t in talks] + sources.books(data) + sources.sentences(data))


def save_tokenizer(data, out, checkpoint):
    """Writes the tokenizer of a checkpoint, or trains one."""
    if checkpoint:
        tokenizer_of(checkpoint).save(f"{out}/tokenizer.json")
    else:
        train_tokenizer(data, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder that contains train/ and intents/")
    parser.add_argument("out")
    parser.add_argument("part", choices=["tokenizer", "valid", "broad", "mixed", "chat"])
    parser.add_argument("--of", metavar="CHECKPOINT", help="with `tokenizer`: copies the tokenizer of a Hugging Face folder or a .bq4 file")
    args = parser.parse_args()
    if args.of and args.part != "tokenizer":
        parser.error(f"--of: expected the part `tokenizer`, found `{args.part}`")
    os.makedirs(args.out, exist_ok=True)
    if args.part == "tokenizer":
        save_tokenizer(args.data, args.out, args.of)
        return
    tokenizer = Tokenizer.from_file(f"{args.out}/tokenizer.json")
    {"valid": write_valid, "broad": write_broad, "mixed": write_mixed, "chat": write_chat}[args.part](args.data, args.out, tokenizer)


if __name__ == "__main__":
    main()
