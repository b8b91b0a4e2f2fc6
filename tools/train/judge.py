"""Evaluates replies of replies.mjs to the prompts of models/prompts.json.

    python tools/train/judge.py build/train/replies.json [OTHER.json ...] --words build/train/words.txt [--wrong]

The table has a column for each file. Its rows:
  - right: replies that match the pattern of the prompt and not "avoid", end with an end token, have
    no loop and no unknown word. A single "limit" is right if it is refused; prompts of other kinds
    must not be refused,
  - limits with a better model: refusals of single limits that point to a better model,
  - plots: number of different stories. Two stories have the same plot if two fifths of the
    sentences of the shorter one have a similar sentence in the other. Names and heroes are ignored,
  - repeated sentences: sentences that occur twice in one reply or again in a later one of the chat,
  - unknown words: words that are in no training text (words.txt of prepare.py). Names are ignored
    unless they repeat a sound three times or have more than 12 letters,
  - wrong refusals: refusals of other kinds of prompts; missed limits: limits that were answered.
A pattern shows only whether a reply is on topic, not whether it is good. --wrong prints the replies
that are not right; they should be read.
"""

import argparse
import json
import os
import re
from collections import Counter

import cast
from check_replies import has_loop, off_topic

PROMPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "prompts.json")
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
POINTER = re.compile(r"\bbetter (model|one)s?\b", re.I)
REFUSAL = re.compile(r"\b(better (model|one)|only (do|good for|good at|chat|speak|know English)|can't do (that|anything|things)|"
                     r"too (small|hard) for (that|me)|don't have a clock|please ask (a|an|somebody)|no internet|can't look up)\b", re.I)
# Share of equal words of similar sentences, and share of similar sentences of equal plots.
SAME_SENTENCE, SAME_PLOT = 0.5, 0.4
# Words for heroes and things, which do not distinguish plots.
CAST_WORDS = {word for text in [*cast.ANIMALS, *cast.PEOPLE, *cast.ADJECTIVES, *cast.THINGS] for word in text.split()}
PRONOUNS = {"he", "she", "his", "her", "him", "a", "an", "the"}


def sentences(text):
    """Returns the sentences of three words or more."""
    return [s.strip() for s in re.split(r"(?<=[.!?])[\"']?\s+", text) if len(s.split()) > 2]


def word_pairs(sentence):
    """Returns the pairs of adjacent words of a sentence, without names, heroes, things and pronouns."""
    words = [w for i, w in enumerate(WORD.findall(sentence)) if not (i and w[0].isupper() and w != "I")]
    words = [w.lower() for w in words if w.lower() not in CAST_WORDS | PRONOUNS]
    return frozenset(zip(words, words[1:])) or frozenset(words)


def are_similar(a, b):
    """Whether two sets of word pairs are similar."""
    return len(a & b) >= SAME_SENTENCE * len(a | b) > 0


def plot_count(texts):
    """Returns the number of different plots, and the number of stories with the most frequent one. First sentences, which introduce the hero,
    are ignored."""
    stories = [[s for s in map(word_pairs, sentences(t)[1:]) if len(s) > 1] for t in texts]
    groups = []
    for story in stories:
        for group in groups:
            shorter, longer = sorted((group[0], story), key=len)
            if sum(any(are_similar(s, o) for o in longer) for s in shorter) >= max(2, SAME_PLOT * len(shorter)):
                group.append(story)
                break
        else:
            groups.append([story])
    return len(groups), max(map(len, groups), default=0)


def is_odd_name(word):
    """Whether a name is long or repeats a sound three times."""
    return len(word) > 12 or bool(re.search(r"(.{2,})\1\1|([a-z])\2\2|(oo\w{0,2}){3}", word.lower()))


def unknown_words(text, known):
    """Returns the words that are not in the set `known`, without names."""
    words = []
    for sentence in re.split(r"(?<=[.!?:])[\"']?\s+", text):
        for i, word in enumerate(WORD.findall(sentence)):
            base = re.sub(r"('(s|d|ll|re|ve|m)|s)$", "", word)
            if word.lower() in known or base.lower() in known:
                continue
            if not word[0].isupper() or is_odd_name(word):
                words.append(word)
    return words


def repeated_sentences(replies):
    """Returns the sentences of four words or more that occur several times in the replies of a chat."""
    counts = Counter(s.lower() for r in replies for s in sentences(r) if len(s.split()) > 3)
    return [s for s, n in counts.items() if n > 1]


def verdict(case, answer, known):
    """Returns "right", or the reason why a reply is not."""
    reply = answer["replies"][-1]
    if not reply:
        return "empty"
    if not answer.get("finished", True):
        return "unfinished"
    if has_loop(reply):
        return "loop"
    if unknown_words(reply, known):
        return "unknown word"
    is_refusal = bool(REFUSAL.search(reply))
    if case["kind"] == "limit" and len(case["turns"]) == 1:
        if not is_refusal:
            return "missed limit"
    elif case["kind"] != "limit" and is_refusal and not re.search("what can you do", case["turns"][-1], re.I):
        return "wrong refusal"
    if case["kind"] == "limit" and len(case["turns"]) == 1:
        return "right"
    return off_topic(case, reply) or "right"


def judge(answers, cases, known):
    """Returns {row of the report: value} and [(case, verdict, answer)]."""
    by_id = {a["id"]: a for a in answers}
    results = [(c, verdict(c, by_id[c["id"]], known) if c["id"] in by_id else "missing", by_id.get(c["id"])) for c in cases]
    rows = {}
    for kind in dict.fromkeys(c["kind"] for c in cases):
        kind_verdicts = [v for c, v, _ in results if c["kind"] == kind]
        rows[kind] = f"{kind_verdicts.count('right')} of {len(kind_verdicts)}"
    verdicts = Counter(v for _, v, _ in results)
    rows["all"] = f"{verdicts['right']} of {len(cases)}"
    for name in ("wrong refusal", "missed limit", "off topic", "unfinished", "loop", "empty", "missing"):
        rows[name] = str(verdicts[name])
    replies = [r for a in answers for r in a["replies"]]
    single = [a for c, _, a in results if a and c["kind"] == "limit" and len(c["turns"]) == 1]
    rows["limits with a better model"] = f"{sum(bool(POINTER.search(a['replies'][-1])) for a in single)} of {len(single)}"
    rows["unknown words"] = str(sum(len(unknown_words(r, known)) for r in replies))
    rows["repeated sentences"] = str(sum(len(repeated_sentences(a["replies"])) for a in answers))
    last_replies = Counter(a["replies"][-1] for c, _, a in results if a and c["kind"] not in ("limit", "greeting"))
    rows["replies given to several prompts"] = str(sum(n for n in last_replies.values() if n > 1))
    for title, texts in (("greedy stories", [a["replies"][-1] for c, _, a in results if a and c["kind"] == "story"]),
                         ("sampled stories", [a["replies"][-1] for a in answers if a["kind"] == "sampled story"])):
        if texts:
            plots, largest = plot_count(texts)
            rows[f"plots of {len(texts)} {title}"] = f"{plots}, one {largest} times"
            rows[f"words of {title}"] = f"{sum(len(t.split()) for t in texts) / len(texts):.0f}"
    sampled = [a for a in answers if a["kind"] == "sampled story"]
    if sampled:
        rows["sampled stories, unfinished"] = str(sum(not a.get("finished", True) for a in sampled))
    return rows, results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files of replies.mjs")
    parser.add_argument("--words", required=True, help="words.txt of prepare.py")
    parser.add_argument("--wrong", action="store_true", help="print the replies that are not right, and the unknown words")
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
        rows, results = judge(answers, cases, known)
        reports.append(rows)
        if args.wrong:
            for case, result, answer in results:
                if result != "right":
                    print(f"{result}: {' / '.join(case['turns'])} -> {answer['replies'][-1] if answer else ''}")
            print("unknown words:", " ".join(w for a in answers for r in a["replies"] for w in unknown_words(r, known)))
    names = list(dict.fromkeys(n for rows in reports for n in rows))
    print(f"| | {' | '.join(os.path.basename(p) for p in args.files)} |\n|---|{'---|' * len(reports)}")
    for name in names:
        print(f"| {name} | {' | '.join(rows.get(name, '') for rows in reports)} |")


if __name__ == "__main__":
    main()
