"""Judges replies to the 20 prompts of models/check.json.

    python tools/train/check_replies.py models/replies.json

The file is a JSON list of {"id", "replies": [one per user turn], "finished"}. The last reply of
each conversation is judged; it is on topic when all of this holds:
  - it is not empty, and the model ended it by itself ("finished" is not false),
  - it is no loop: no run of four words occurs three times,
  - "pattern" matches and "avoid" does not (case ignored; both are valid in JavaScript too).
Exit status 1 when fewer than 16 are on topic.
"""

import json
import os
import re
import sys

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "check.json")
NEEDED = 16


def load_check():
    with open(CHECK, encoding="utf8") as f:
        return json.load(f)


def loops(text):
    words = text.lower().split()
    runs = [" ".join(words[i:i + 4]) for i in range(len(words) - 3)]
    return any(runs.count(r) >= 3 for r in set(runs))


def off_topic(case, reply):
    """Why a reply is not on topic by the case's patterns; None: it is."""
    if not re.search(case["pattern"], reply, re.I):
        return "off topic"
    if case.get("avoid") and re.search(case["avoid"], reply, re.I):
        return "avoid"
    return None


def verdict(case, reply, finished=True):
    """"on topic", or why not."""
    if not reply.strip():
        return "empty"
    if not finished:
        return "unfinished"
    if loops(reply):
        return "loop"
    return off_topic(case, reply) or "on topic"


def judge(answers):
    """[{"id", "replies", "finished"}] -> [(case, verdict)], one per prompt of the check."""
    by_id = {a["id"]: a for a in answers}
    out = []
    for case in load_check():
        a = by_id.get(case["id"])
        out.append((case, verdict(case, a["replies"][-1], a.get("finished", True)) if a else "missing"))
    return out


def main():
    with open(sys.argv[1], encoding="utf8") as f:
        results = judge(json.load(f))
    for case, result in results:
        print(f"{case['id']:18} {result}")
    good = sum(result == "on topic" for _, result in results)
    unseen = [result for case, result in results if case["heldout"]]
    print(f"{good} of {len(results)} on topic; {unseen.count('on topic')} of the {len(unseen)} prompts not in the training text")
    sys.exit(good < NEEDED)


if __name__ == "__main__":
    main()
