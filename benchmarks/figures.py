"""Figures of a few rounds, as people read them: the median, with the smallest and the largest beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median


def spread(values: Sequence[float], digits: int = 1) -> str:
    """`median (smallest - largest)`."""
    if not values:
        return "-"
    low, mid, high = (f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{mid} ({low} - {high})"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, so that a machine that slows down slows both sides of each pair."""
    return [a / b for a, b in zip(ours, theirs, strict=True) if b]


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as Markdown, aligned, with the machine's load above it."""
    print(f"\n{title}  [{os.cpu_count()} cores, load {', '.join(f'{load:.1f}' for load in os.getloadavg())}]\n")
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def goal(text: str, met: bool) -> None:
    """Print whether a goal was met."""
    print(f"{'met   ' if met else 'MISSED'}  {text}")
