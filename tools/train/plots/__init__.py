"""The plots of the little stories.

Each file of this folder adds its plots with `add`. A plot's text has one sentence group a line; of
alternatives separated by " | " one is drawn, and [a/b/] means one of these. {name} is the hero,
{pal} the friend; cast.py has the other words. The last line is the plot's own ending.
"""

import importlib
import os
import pkgutil
import re

PLOTS = {}  # name -> Plot


class Plot:
    """`themes`: what it may be asked for by; `who`: what its hero does or is, after "who"; `ways`: sets of words to draw from."""

    def __init__(self, name, themes, who, text, ways):
        self.name, self.who, self.ways = name, who, ways or [{}]
        self.themes = [t.strip() for t in themes.split(",") if t.strip()]
        self.lines = [line.strip() for line in text.strip().split("\n")]
        if len(self.lines) < 5:
            raise ValueError(f"plot {name}: expected five lines or more, found {len(self.lines)}")

    def told(self, tale):
        """The sentences after the opening."""
        rng, words = tale.rng, {**tale.words, **tale.rng.choice(self.ways)}
        drawn = (rng.choice(line.split(" | ")) for line in self.lines)
        drawn = (re.sub(r"\[([^\]]*)\]", lambda m: rng.choice(m[1].split("/")), line) for line in drawn)
        return [line.format_map(words).format_map(words) for line in drawn]


def add(name, themes, who, text, ways=None):
    if name in PLOTS:
        raise ValueError(f"plot {name} is there twice")
    PLOTS[name] = Plot(name, themes, who, text, ways)


for module in sorted(m.name for m in pkgutil.iter_modules([os.path.dirname(os.path.abspath(__file__))])):
    importlib.import_module(f"plots.{module}")

THEMES = {}  # what is asked for -> names of plots
for plot in PLOTS.values():
    for theme in plot.themes:
        THEMES.setdefault(theme, []).append(plot.name)
