"""The plots of the little stories.

Each file of this folder adds its plots with `add`. The text of a plot has one group of sentences per line.
One of the alternatives separated by " | " is chosen at random, and one of those in [a/b/]. {name} is the
hero, {pal} the friend; cast.py defines the other words. The last line is the ending of the plot.
"""

import importlib
import os
import pkgutil
import re

PLOTS = {}  # name -> Plot


class Plot:
    """A plot. `themes`: words for requests; `who`: action of the hero, after "who"; `variants`: sets of words, one of which is chosen."""

    def __init__(self, name, themes, who, text, variants):
        self.name, self.who, self.variants = name, who, variants or [{}]
        self.themes = [t.strip() for t in themes.split(",") if t.strip()]
        self.lines = [line.strip() for line in text.strip().split("\n")]
        if len(self.lines) < 5:
            raise ValueError(f"plot {name}: expected five lines or more, found {len(self.lines)}")

    def sentences(self, tale):
        """Returns the sentences of a story after the first one."""
        rng, words = tale.rng, {**tale.words, **tale.rng.choice(self.variants)}
        lines = (rng.choice(line.split(" | ")) for line in self.lines)
        lines = (re.sub(r"\[([^\]]*)\]", lambda m: rng.choice(m[1].split("/")), line) for line in lines)
        return [line.format_map(words).format_map(words) for line in lines]


def add(name, themes, who, text, variants=None):
    """Adds a plot."""
    if name in PLOTS:
        raise ValueError(f"expected different names of plots, found {name} twice")
    PLOTS[name] = Plot(name, themes, who, text, variants)


for module in sorted(m.name for m in pkgutil.iter_modules([os.path.dirname(os.path.abspath(__file__))])):
    importlib.import_module(f"plots.{module}")

THEMES = {}  # theme of a request -> names of plots
for plot in PLOTS.values():
    for theme in plot.themes:
        THEMES.setdefault(theme, []).append(plot.name)
