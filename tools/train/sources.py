"""Readers of the public training texts in DATA/train and DATA/intents.

Each reader returns documents. A document is either a string (stories, books, sentences) or a list
of turns, of which the first is the user's. No text is CC BY-SA; models/README.md lists all licences.
"""

import csv
import glob
import html
import json
import os
import re

import yaml


def clean(text):
    """Returns text with single spaces and ASCII punctuation."""
    text = html.unescape(str(text))
    for fancy, plain in {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2014": " - ",
                         "\u2013": "-", "\u2026": "...", "\u00a0": " ", "_": ""}.items():
        text = text.replace(fancy, plain)
    return re.sub(r"\s+", " ", text).strip()


def polish(text):
    """Returns text with capital letters at the start of sentences and for "I", and a full stop at the end."""
    text = clean(text)
    text = re.sub(r"(^|[.!?] +)([a-z])", lambda m: m[1] + m[2].upper(), text)
    text = re.sub(r"\bi\b(?=$|[ ,.!?'])", "I", text)
    text = re.sub(r"([!?.])[!?.]+$", r"\1", text)
    return text if not text or text[-1] in ".!?\"')" else text + "."


def plain_words(text):
    """Returns the lower-case words of a text, for comparisons of user turns with held-out prompts."""
    return re.sub(r"[^a-z0-9 ]", "", text.lower().replace("-", " ")).strip()


def read_blocks(path):
    """Returns the parts of a file that are separated by empty lines."""
    with open(path, encoding="utf8") as f:
        return [b.strip() for b in f.read().split("\n\n") if b.strip()]


def self_dialogue(data):
    """Conversations of four turns or more."""
    talks = [[polish(t) for t in b.split("\n")] for b in read_blocks(f"{data}/train/self_dialogue.txt")]
    return [t for t in talks if len(t) > 3]


def tagged_dialogues(path, user):
    """Conversations with lines "User 1: text". Adjacent lines of one speaker are one turn."""
    dialogues = []
    for block in read_blocks(path):
        turns, was_user = [], None
        for line in block.split("\n"):
            speaker, colon, text = line.partition(":")
            if not colon:
                continue
            is_user = speaker.strip() == user
            if was_user == is_user:
                turns[-1] += " " + text.strip()
            elif turns or is_user:
                turns.append(text.strip())
                was_user = is_user
        if len(turns) > 1:
            dialogues.append([polish(t) for t in turns])
    return dialogues


def personas(data):
    """Conversations of Synthetic-Persona-Chat."""
    return tagged_dialogues(f"{data}/train/synthetic_persona_chat_valid.txt", "User 1")


def orders(data):
    """Conversations of Taskmaster-4."""
    return tagged_dialogues(f"{data}/train/taskmaster4.txt", "User")


# Answers that claim abilities which a text model does not have, or that are not suitable for all visitors of a page.
UNSUITABLE = re.compile(r"\b(virtual|imaginary|fired|sexual|kiss|marry|abusive)\b", re.I)


def personality(data):
    """Pairs of a question and a short answer, in a friendly and a professional voice."""
    out = []
    for voice in ("Friendly", "Professional"):
        path = f"{data}/train/persona/Queries_Responses_{voice}_QnAMaker.tsv"
        with open(path, encoding="utf8") as f:
            for row in csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
                if len(row) > 1 and row[0] != "Question" and not UNSUITABLE.search(row[1]):
                    out.append([clean(row[0]), clean(row[1])])
    return out


def chatterbot(data):
    """Pairs of a question and a short answer of ChatterBot's corpus."""
    out = []
    for path in sorted(glob.glob(f"{data}/train/chatterbot/english/*.yml")):
        if os.path.basename(path) in ("coding.yml", "tech_support.yml", "politics.yml", "gossip.yml"):
            continue
        with open(path, encoding="utf8") as f:
            for talk in yaml.safe_load(f)["conversations"]:
                turns = [clean(t) for t in talk if t is not None]
                if len(turns) > 1 and len(turns[1]) < 300:
                    out.append([turns[0], polish(turns[1])])
    return out


def stories(data):
    """(title, text) of children's stories, up to the end of a sentence after at most 170 words."""
    out = []
    for name in ("pratham_en", "african_storybook_en"):
        for block in read_blocks(f"{data}/train/{name}.txt"):
            title, _, body = block.partition("\n")
            words = clean(body).split()
            text = " ".join(words[:170])
            end = max(text.rfind(c) for c in ".!?")
            if len(words) >= 30 and end > 0:
                out.append((clean(title), text[: end + 1]))
    return out


def books(data, limit=1500):
    """Parts of books with slightly more than `limit` characters."""
    out = []
    for path in sorted(glob.glob(f"{data}/train/books/*.txt")):
        with open(path, encoding="utf8", errors="ignore") as f:
            paragraphs = [clean(p) for p in re.split(r"\n\s*\n", f.read())]
        part = ""
        for p in paragraphs:
            part += p + "\n"
            if len(part) > limit:
                out.append(part)
                part = ""
    return out


def sentences(data):
    """Sentences of Common Voice."""
    with open(f"{data}/train/common_voice_en.txt", encoding="utf8") as f:
        return [clean(line) for line in f if 20 < len(line) < 200]


def intents(data):
    """CLINC150 (training part): queries by intent; "oos" are queries without an intent."""
    with open(f"{data}/intents/clinc.json", encoding="utf8") as f:
        parts = json.load(f)
    rows = parts["train"] + parts["oos_train"]
    out = {}
    for text, label in rows:
        out.setdefault(label, []).append(clean(text))
    return out
