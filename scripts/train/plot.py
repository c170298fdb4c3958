#!/usr/bin/env python3
"""Draws the curves of a training run of train.py: loss, and bits per byte on the held-out texts.

    scripts/train/plot.py out/log.csv -o weights/loss.png
"""
import argparse
import csv
import math

import matplotlib

matplotlib.use("Agg")  # no window
from matplotlib import pyplot  # noqa: E402

SMOOTHING = 20  # rows of the log that the thick line averages


def read(path):
    """column → list of numbers, None where the log has none."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise SystemExit(f"{path}: no row yet")
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    log = read(args.log)
    millions = [tokens / 1e6 for tokens in log["tokens"]]
    smooth = [sum(window) / len(window) for window in
              (log["loss"][max(0, i + 1 - SMOOTHING):i + 1] for i in range(len(millions)))]

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.plot(millions, log["loss"], color="#c6d4e1", linewidth=0.8)
    left.plot(millions, smooth, color="#1f4e79", linewidth=1.6)
    left.set(title="training loss", xlabel="million tokens", ylabel="nats per token")
    left.set_ylim(math.floor(10 * min(smooth)) / 10, max(smooth))
    for name, colour in (("wiki-val", "#1f4e79"), ("books-val", "#b35c1e")):
        points = [point for point in zip(millions, log[name]) if point[1] is not None]
        right.plot(*zip(*points), marker="o", markersize=3, color=colour, label=name)
    right.set(title="held-out text, while training", xlabel="million tokens", ylabel="bits per byte")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.grid(color="#e5e5e5")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(args.output, dpi=110)


if __name__ == "__main__":
    main()
