"""Draws the plots of docs/log/benchmarks.md as SVG files with colors for light and dark pages.

    python plots.py build/bench/figures.json docs/benchmarks
"""
import json
import os
import re
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.hashsalt": "bq4", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "figure.constrained_layout.use": True,
})
import matplotlib.pyplot as plt  # noqa: E402

INK, BQ4, NATIVE, WEB = "#1f2328", "#c2410c", "#57606a", "#2563eb"
for key in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"):
    matplotlib.rcParams[key] = INK
DARK_COLORS = {INK: "#e6edf3", BQ4: "#fb923c", NATIVE: "#9198a1", WEB: "#60a5fa"}
COLORS = {"bq4": BQ4, "native": NATIVE}
NAMES = {"bq4": "bq4", "native": "llama.cpp native", "ort": "onnxruntime-web", "tjs": "transformers.js", "wllama": "wllama", "llama-wasm": "llama.cpp to wasm, Node"}
PRECISIONS = {"bq4h+bq8": "4-bit, 8-bit LM head", "bq4h+bq4h": "all 4-bit", "q4_0": "Q4_0", "q4_0-pure": "Q4_0 pure", "q8_0": "Q8_0",
              "q8": "int8", "q4": "int4", "fp32": "f32"}


def write(figure, folder, name, title):
    """Saves a figure with colors that depend on the color scheme of the reader."""
    path = os.path.join(folder, name + ".svg")
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None, "Title": title})
    plt.close(figure)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    variables = {light: f"--c{i}" for i, light in enumerate(DARK_COLORS)}
    for light, variable in variables.items():
        text = re.sub(light, f"var({variable})", text, flags=re.I)
    light = "".join(f"{v}:{c};" for c, v in variables.items())
    dark = "".join(f"{v}:{DARK_COLORS[c]};" for c, v in variables.items())
    style = f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}text{{fill:var({variables[INK]})}}</style>"
    text = re.sub(r"(<svg[^>]*>)", lambda m: m.group(1) + style, text, count=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"[ \t]+$", "", text, flags=re.M))


def label(visit):
    """Returns the label of a visit."""
    suffix = ", no AMX" if visit.get("variant") == "no-amx" else ""
    return f"{NAMES[visit['runtime']]} {visit['version'] if visit['runtime'] not in ('native', 'llama-wasm') else ''} {PRECISIONS.get(visit['precision'], visit['precision'])}{suffix}".replace("  ", " ")


def compared_rows(figures):
    """Yields the rows of all runtimes, without variants of bq4."""
    for row in figures["rows"]:
        visit = row["visit"]
        if visit["runtime"] in ("limit", "read") or not row["rounds"]:
            continue
        if visit["runtime"] == "bq4" and (visit["variant"] != "best" or visit["kv"] != "i8" or visit.get("browser") or visit["precision"] not in PRECISIONS):
            continue
        yield row


def rate_of(row, prompt, rate):
    """Returns the summary of a rate, or None."""
    for cell in row["cells"]:
        if cell["prompt"] == prompt and cell[rate]:
            return cell[rate]
    return None


def draw_rates(figures, rate, folder):
    """Draws a panel for each number of threads with a bar for each runtime. The scale is logarithmic, since rates differ by a factor of 100."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), sharex=True)
    for axis, threads in zip(axes, (1, 2)):
        rows = [(label(r["visit"]), rate_of(r, 128, rate), r["visit"]["runtime"]) for r in compared_rows(figures)
                if r["visit"]["shape"] == "135m" and r["visit"]["threads"] == threads]
        rows = sorted((r for r in rows if r[1]), key=lambda r: r[1]["median"])
        for i, (_, summary, runtime) in enumerate(rows):
            axis.barh(i, summary["median"], color=COLORS.get(runtime, WEB), height=0.7)
            axis.plot([summary["least"], summary["most"]], [i, i], color=INK, linewidth=1)
            axis.text(max(summary["most"], summary["median"]) * 1.08, i, f"{summary['median']:.3g}", va="center", fontsize=8)
        axis.set_yticks(range(len(rows)), [r[0] for r in rows], fontsize=8)
        axis.set_xscale("log")
        axis.margins(x=0.18)
        axis.set_title(f"{threads} thread{'s' if threads > 1 else ''}")
        axis.set_xlabel("tokens per second (log)")
    prompt = "after a prompt of 128 tokens" if rate == "decode" else "of 128 tokens"
    figure.suptitle(f"{rate.capitalize()} {prompt}, 135M shape")
    write(figure, folder, rate, f"{rate} rates")


def draw_contexts(figures, folder):
    """Draws decode rates by length of the context."""
    figure, axis = plt.subplots(figsize=(6.5, 3.6))
    styles = {1: "-", 2: "--"}
    for row in figures["rows"]:
        visit = row["visit"]
        points = [(c["prompt"], c["decode"]["median"]) for c in row["cells"] if c["decode"]]
        if visit["shape"] != "135m" or len(points) < 2 or visit.get("variant") == "no-amx" or visit["precision"] == "fp32" or visit["runtime"] == "tjs":
            continue
        name = label(visit) + (f" KV {visit['kv']}" if visit["runtime"] == "bq4" else "") + f", {visit['threads']} thr"
        axis.plot(*zip(*points), styles[visit["threads"]], marker="o", markersize=3, color=COLORS.get(visit["runtime"], WEB), label=name)
        axis.annotate(name, points[-1], xytext=(4, 0), textcoords="offset points", fontsize=7, va="center")
    axis.set_xlabel("tokens of context")
    axis.set_ylabel("tokens per second")
    axis.set_yscale("log")
    axis.set_xlim(0, 3000)
    axis.set_title("Decode by length of context, 135M shape")
    write(figure, folder, "context", "decode rate by context")


def draw_limits(figures, folder):
    """Draws bytes per second of a plain read, of the bare loops and of a decode step."""
    limits = figures["limits"]
    if not limits:
        return
    figure, axes = plt.subplots(1, len(limits), figsize=(4.6 * len(limits), 2.4), sharex=True, squeeze=False)
    for axis, limit in zip(axes[0], limits):
        lines = list(reversed(limit["lines"]))
        for i, line in enumerate(lines):
            axis.barh(i, line["gbPerS"], color=NATIVE if line["title"] == "plain read" else BQ4, alpha=1 if "step" in line["title"] or line["title"] == "plain read" else 0.6, height=0.7)
            axis.text(line["gbPerS"], i, f" {line['gbPerS']:.3g}", va="center", fontsize=8)
        axis.set_yticks(range(len(lines)), [line["title"] for line in lines], fontsize=8)
        axis.set_xlabel("GB/s of weights")
        axis.margins(x=0.15)
        axis.set_title(f"{PRECISIONS[limit['precision']]}, {limit['bytes'] / 1e6:.0f} MB")
    figure.suptitle("Matrices of one token, 135M shape, 1 thread")
    write(figure, folder, "roofline", "roofline")


def draw_loads(figures, folder):
    """Draws load times and sizes of downloads."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    rows = [(label(r["visit"]), r["loadMs"]["median"], r["visit"]["runtime"]) for r in compared_rows(figures)
            if r["visit"]["shape"] == "135m" and r["visit"]["threads"] == 1 and r["loadMs"] and r["visit"]["runtime"] not in ("native", "llama-wasm")]
    rows.sort(key=lambda r: r[1])
    sizes = [("bq4 (largest build)", max((s["gzip"] for n, s in figures["payload"]["bq4"].items() if n.endswith(".wasm")), default=0)
              + sum(s["gzip"] for n, s in figures["payload"]["bq4"].items() if not n.endswith(".wasm")), "bq4")]
    sizes += [(name, size["gzip"], "web") for name, size in figures["payload"]["peers"].items()]
    for axis, data, unit, title in ((left, rows, "ms (log)", "Load, 135M shape"), (right, sorted(sizes, key=lambda s: s[1]), "kB, gzipped (log)", "Payload")):
        for i, (_, value, runtime) in enumerate(data):
            length = value / 1e3 if axis is right else value
            axis.barh(i, length, color=COLORS.get(runtime, WEB), height=0.7)
            axis.text(length, i, f" {length:.0f}", va="center", fontsize=8)
        axis.set_yticks(range(len(data)), [d[0] for d in data], fontsize=8)
        axis.set_xscale("log")
        axis.margins(x=0.2)
        axis.set_xlabel(unit)
        axis.set_title(title)
    write(figure, folder, "load", "load time and payload")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        data = json.load(source)
    os.makedirs(sys.argv[2], exist_ok=True)
    for name in ("decode", "prefill"):
        draw_rates(data, name, sys.argv[2])
    draw_contexts(data, sys.argv[2])
    draw_limits(data, sys.argv[2])
    draw_loads(data, sys.argv[2])
