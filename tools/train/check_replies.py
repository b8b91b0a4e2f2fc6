"""Evaluates replies to the 20 prompts of models/check.json.

    python tools/train/check_replies.py models/replies.json

The file is a JSON list of {"id", "replies": [one per user turn], "finished"}. The last reply of
each conversation is evaluated. It is on topic if:
  - it is not empty, and it ends with an end token ("finished" is not false),
  - it has no loop: no sequence of four words occurs three times,
  - "pattern" matches and "avoid" does not. Case is ignored; both are also valid in JavaScript.
The exit status is 1 if fewer than 16 replies are on topic.
"""

import json
import os
import re
import sys

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "check.json")
MIN_ON_TOPIC = 16


def load_check():
    """Returns the prompts with their conditions."""
    with open(CHECK, encoding="utf8") as f:
        return json.load(f)


def has_loop(text):
    """Whether a sequence of four words occurs three times."""
    words = text.lower().split()
    sequences = [" ".join(words[i:i + 4]) for i in range(len(words) - 3)]
    return any(sequences.count(s) >= 3 for s in set(sequences))


def off_topic(case, reply):
    """Returns the reason why a reply is not on topic according to the patterns of its case, or None."""
    if not re.search(case["pattern"], reply, re.I):
        return "off topic"
    if case.get("avoid") and re.search(case["avoid"], reply, re.I):
        return "avoid"
    return None


def verdict(case, reply, finished=True):
    """Returns "on topic", or the reason why a reply is not."""
    if not reply.strip():
        return "empty"
    if not finished:
        return "unfinished"
    if has_loop(reply):
        return "loop"
    return off_topic(case, reply) or "on topic"


def judge(answers):
    """Returns (case, verdict) for each prompt of the check. answers: [{"id", "replies", "finished"}]."""
    by_id = {a["id"]: a for a in answers}
    results = []
    for case in load_check():
        answer = by_id.get(case["id"])
        results.append((case, verdict(case, answer["replies"][-1], answer.get("finished", True)) if answer else "missing"))
    return results


def main():
    with open(sys.argv[1], encoding="utf8") as f:
        results = judge(json.load(f))
    for case, result in results:
        print(f"{case['id']:18} {result}")
    on_topic = sum(result == "on topic" for _, result in results)
    held_out = [result for case, result in results if case["heldout"]]
    print(f"{on_topic} of {len(results)} on topic; {held_out.count('on topic')} of the {len(held_out)} prompts that are not in the training text")
    sys.exit(on_topic < MIN_ON_TOPIC)


if __name__ == "__main__":
    main()
