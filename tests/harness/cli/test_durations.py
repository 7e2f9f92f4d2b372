"""Lengths of time on the command line."""

import math

import pytest
import typer

from fencepost.harness.cli.durations import duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), (" 1.5m ", 90), ("2min", 120), ("2H", 7200), (".5s", 0.5), ("1e3", 1000), ("30.0", 30), ("-5", -5)],
)
def test_a_length_of_time_has_a_unit_or_is_seconds(text, seconds):
    assert duration_s(text) == seconds


def test_numbers_that_are_none_are_judged_later():
    assert math.isinf(duration_s("inf"))
    assert math.isnan(duration_s("nan"))


@pytest.mark.parametrize("text", ["", "s", "30x", "1 2", "1:30", "2h30"])
def test_anything_else_is_refused(text):
    with pytest.raises(typer.BadParameter, match="no length of time"):
        duration_s(text)
