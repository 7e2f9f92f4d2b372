"""Lines of a history whose content is not as documented are damaged as a whole."""

from __future__ import annotations

import json

import pytest

from fencepost.harness.history.lines import COMPLETION, decoded

DRAIN = {"group": "g", "outputs": [1, 1], "output_partitions": ["out-0"], "ordered": False, "drained": True}


def line(f, value, type="ok"):
    return json.dumps({"type": type, "process": -1, "op": 3, "f": f, "time": 9, "value": value}).encode()


@pytest.mark.parametrize(
    ("f", "value"),
    [
        ("final-read", {"t-0": [0, 9]}),
        ("settle", {"partitions": {"t-0": None}}),
        *((f, value) for f in ("committed", "group-offsets") for value in ({}, {"offsets": []}, {"offsets": {"t-0": "7"}})),
        ("drain", {**DRAIN, "outputs": None}),
        ("drain", {"outputs": [1, 1]}),
    ],
)
def test_what_is_not_as_documented_is_damaged(f, value):
    with pytest.raises(ValueError, match=r"Expected|missing required field"):
        decoded(line(f, value))


@pytest.mark.parametrize(
    ("f", "value", "type"),
    [
        ("committed", {"offsets": {"t-0": 7, "t-1": None}}, "ok"),
        ("committed", {}, "fail"),
        ("group-offsets", {"group": "g", "offsets": {}}, "ok"),
        ("group-offsets", {}, "info"),
        ("drain", {**DRAIN, "group": None, "counts": False, "keys": 1}, "info"),
        ("drain", {}, "info"),
    ],
)
def test_what_is_documented_and_what_is_not_known_is_read(f, value, type):
    assert decoded(line(f, value, type))[0] == COMPLETION
