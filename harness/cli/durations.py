"""Lengths of time on the command line: seconds, or a number with a unit."""

from __future__ import annotations

import typer

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration_s(text: str) -> float:
    """`90`, `90s`, `1.5m` and `2h` in seconds. Raises BadParameter for what is no length of time."""
    written = str(text).strip().lower()
    number = written.rstrip("abcdefghijklmnopqrstuvwxyz") or written
    try:
        return float(written) if number == written else float(number) * _UNITS[written[len(number) :]]
    except (KeyError, ValueError):
        pass
    try:
        return float(written)  # `inf` and `nan`, whose bounds are judged with those of all numbers
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no length of time; write seconds, or 90s, 5m, 2h") from None
