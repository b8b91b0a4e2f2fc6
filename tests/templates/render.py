"""Renders templates as make_expected.py does: JSON [template, context] on each line of the input; on each line of the
output {"text"}, {"error"} or, of texts that are too long to be compared, {"long"}. For tests/js/templates-suite.mjs."""
import json
import sys

from make_expected import environment

ENVIRONMENT = environment()
LONGEST = 100_000
for line in sys.stdin:
    template, context = json.loads(line)
    try:
        text = ENVIRONMENT.from_string(template).render(**context)
        made = {"text": text} if len(text) < LONGEST else {"long": True}
    except Exception as error:  # noqa: BLE001 - whatever Python says: it refuses
        made = {"error": f"{type(error).__name__}: {error}"[:200]}
    # Text that holds half of a pair of surrogates stays one: JSON's escapes keep it.
    print(json.dumps(made))
