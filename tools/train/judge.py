"""Judges replies to the prompts of models/prompts.json, as replies.mjs writes them.

    python tools/train/judge.py build/train/replies.json [OTHER.json ...] --words build/train/words.txt [--wrong]

With several files it shows them side by side, the first one as the reference. What it counts:
  - right: of a kind's prompts, those whose last reply matches its pattern and not "avoid", ended by
    itself, is no loop and has no broken word. A single "limit" is right if it is refused, and a
    prompt that can be answered must not be,
  - limits with a better model: of the refusals of single limits, those that point to one,
  - plots: of the stories, how many are different. Two have the same plot if two fifths of the
    shorter one's sentences are found in the other, names and kinds of heroes left out,
  - repeated sentences: those that occur twice in one reply or again in a later one of the chat,
  - broken words: in no training text (words.txt of prepare.py), names left out unless they repeat
    a sound three times or are longer than 12 letters,
  - wrong refusals: of prompts that it can answer; missed limits: those that it answered.
A pattern can only tell that a reply is about the right thing, not that it is good. --wrong shows
what was not right: read it.
"""

import argparse
import json
import os
import re
from collections import Counter

import cast
from check_replies import loops, off_topic

PROMPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "prompts.json")
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
POINTER = re.compile(r"\bbetter (model|one)s?\b", re.I)
REFUSAL = re.compile(r"\b(better (model|one)|only (do|good for|good at|chat|speak|know English)|can't do (that|anything|things)|"
                     r"too (small|hard) for (that|me)|don't have a clock|please ask (a|an|somebody)|no internet|can't look up)\b", re.I)
SAME_SENTENCE, SAME_PLOT = 0.5, 0.4
# Heroes and their surroundings say nothing about what happens.
CAST_WORDS = {w for text in [*cast.ANIMALS, *cast.PEOPLE, *cast.ADJECTIVES, *cast.THINGS] for w in text.split()}
PRONOUNS = {"he", "she", "his", "her", "him", "a", "an", "the"}


def sentences(text):
    return [s.strip() for s in re.split(r"(?<=[.!?])[\"']?\s+", text) if len(s.split()) > 2]


def shape(sentence):
    """Its words without names, heroes, things and pronouns, as runs of two."""
    words = [w for i, w in enumerate(WORD.findall(sentence)) if not (i and w[0].isupper() and w != "I")]
    words = [w.lower() for w in words if w.lower() not in CAST_WORDS | PRONOUNS]
    return frozenset(zip(words, words[1:])) or frozenset(words)


def alike(a, b):
    return len(a & b) >= SAME_SENTENCE * len(a | b) > 0


def plot_count(texts):
    """(how many different plots, how often the most frequent occurs). The first sentence, who it is about, doesn't count."""
    stories = [[s for s in map(shape, sentences(t)[1:]) if len(s) > 1] for t in texts]
    groups = []
    for story in stories:
        for group in groups:
            shorter, longer = sorted((group[0], story), key=len)
            if sum(any(alike(s, o) for o in longer) for s in shorter) >= max(2, SAME_PLOT * len(shorter)):
                group.append(story)
                break
        else:
            groups.append([story])
    return len(groups), max(map(len, groups), default=0)


def odd_name(word):
    return len(word) > 12 or bool(re.search(r"(.{2,})\1\1|([a-z])\2\2|(oo\w{0,2}){3}", word.lower()))


def broken_words(text, known):
    found = []
    for sentence in re.split(r"(?<=[.!?:])[\"']?\s+", text):
        for i, word in enumerate(WORD.findall(sentence)):
            base = re.sub(r"('(s|d|ll|re|ve|m)|s)$", "", word)
            if word.lower() in known or base.lower() in known:
                continue
            if not word[0].isupper() or odd_name(word):
                found.append(word)
    return found


def repeats(replies):
    """Sentences of four words or more that were said before in this chat."""
    seen = Counter(s.lower() for r in replies for s in sentences(r) if len(s.split()) > 3)
    return [s for s, n in seen.items() if n > 1]


def verdict(case, answer, known):
    """"right", or why not."""
    reply = answer["replies"][-1]
    if not reply:
        return "empty"
    if not answer.get("finished", True):
        return "unfinished"
    if loops(reply):
        return "loop"
    if broken_words(reply, known):
        return "broken word"
    refused = bool(REFUSAL.search(reply))
    if case["kind"] == "limit" and len(case["turns"]) == 1:
        if not refused:
            return "missed limit"
    elif case["kind"] != "limit" and refused and not re.search("what can you do", case["turns"][-1], re.I):
        return "wrong refusal"
    if case["kind"] == "limit" and len(case["turns"]) == 1:
        return "right"
    return off_topic(case, reply) or "right"


def judge(answers, cases, known):
    """{row of the report: value}, [(case, verdict, reply)]"""
    by_id = {a["id"]: a for a in answers}
    each = [(c, verdict(c, by_id[c["id"]], known) if c["id"] in by_id else "missing", by_id.get(c["id"])) for c in cases]
    rows = {}
    for kind in dict.fromkeys(c["kind"] for c in cases):
        some = [v for c, v, _ in each if c["kind"] == kind]
        rows[kind] = f"{some.count('right')} of {len(some)}"
    verdicts = Counter(v for _, v, _ in each)
    rows["all"] = f"{verdicts['right']} of {len(cases)}"
    for name in ("wrong refusal", "missed limit", "off topic", "unfinished", "loop", "empty", "missing"):
        rows[name] = str(verdicts[name])
    every = [r for a in answers for r in a["replies"]]
    single = [a for c, _, a in each if a and c["kind"] == "limit" and len(c["turns"]) == 1]
    rows["limits with a better model"] = f"{sum(bool(POINTER.search(a['replies'][-1])) for a in single)} of {len(single)}"
    rows["broken words"] = str(sum(len(broken_words(r, known)) for r in every))
    rows["repeated sentences"] = str(sum(len(repeats(a["replies"])) for a in answers))
    lasts = Counter(a["replies"][-1] for c, _, a in each if a and c["kind"] not in ("limit", "greeting"))
    rows["replies given to several prompts"] = str(sum(n for n in lasts.values() if n > 1))
    for title, texts in (("greedy stories", [a["replies"][-1] for c, _, a in each if a and c["kind"] == "story"]),
                         ("drawn stories", [a["replies"][-1] for a in answers if a["kind"] == "drawn story"])):
        if texts:
            plots, most = plot_count(texts)
            rows[f"plots of {len(texts)} {title}"] = f"{plots}, one {most} times"
            rows[f"words of {title}"] = f"{sum(len(t.split()) for t in texts) / len(texts):.0f}"
    drawn = [a for a in answers if a["kind"] == "drawn story"]
    if drawn:
        rows["drawn stories, unfinished"] = str(sum(not a.get("finished", True) for a in drawn))
    return rows, each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="replies, as replies.mjs writes them")
    parser.add_argument("--words", required=True, help="words.txt of prepare.py")
    parser.add_argument("--wrong", action="store_true", help="show what was not right, and the broken words")
    args = parser.parse_args()
    with open(PROMPTS, encoding="utf8") as f:
        cases = json.load(f)
    with open(args.words, encoding="utf8") as f:
        known = set(f.read().split())
    known |= {w.lower() for c in cases for t in c["turns"] for w in WORD.findall(t)}
    reports = []
    for path in args.files:
        with open(path, encoding="utf8") as f:
            answers = json.load(f)
        rows, each = judge(answers, cases, known)
        reports.append(rows)
        if args.wrong:
            for case, result, answer in each:
                if result != "right":
                    print(f"{result}: {' / '.join(case['turns'])} -> {answer['replies'][-1] if answer else ''}")
            print("broken words:", " ".join(w for a in answers for r in a["replies"] for w in broken_words(r, known)))
    names = list(dict.fromkeys(n for rows in reports for n in rows))
    print(f"| | {' | '.join(os.path.basename(p) for p in args.files)} |\n|---|{'---|' * len(reports)}")
    for name in names:
        print(f"| {name} | {' | '.join(rows.get(name, '') for rows in reports)} |")


if __name__ == "__main__":
    main()
