"""The reader of EDN: every form, and what is wrong."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.lines import EdnLines


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("[1 -2, +3 4N]", [1, -2, 3, 4]),
        ('"a\\n\\"b\\" \\u00e9"', 'a\n"b" é'),
        ("[:a :b/c d #{1} (2)]", ["a", "b/c", "d", [1], [2]]),
        ("{5 [[0 1]], :k {}}", {5: [[0, 1]], "k": {}}),
        ("#jepsen.history.Op{:f :txn}", {"f": "txn"}),
        ('#inst "2026-01-01"', "2026-01-01"),
        ("[\\a \\newline \\u0041]", ["a", "\n", "A"]),
        ("[1.5 2e3 3.0M 1/2 ##Inf]", [1.5, 2000.0, "3.0M", "1/2", "Inf"]),
        ("; said\n[1 #_ {:not this} 2] ; and done", [1, 2]),
        ("{[1 2] 3}", {"[1, 2]": 3}),
        ("[a#b #:c/d {e f}]", ["a#b", {"e": "f"}]),
    ],
)
def test_every_form_is_read(text, value):
    assert edn.read(text) == value


@pytest.mark.parametrize("text", ["", "[1", "]", "{:a}", '"open', "[1)", "1 2", "#", "[#tag]", "#_ 1", "[#{1]}", "\\", '#"x"'])
def test_what_is_wrong_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        edn.read(text)


names = st.text(string.ascii_letters + string.digits + " ,:;{}[]\\\"'#nil-", max_size=8)
values = st.one_of(st.integers(-(2**60), 2**60), names, st.sampled_from(["nil", "poll", "vanilla", "a-b"]))
keys = st.one_of(st.integers(0, 9), names)
mops = st.one_of(
    st.tuples(st.just("send"), keys, values),
    st.tuples(st.just("send"), keys, st.tuples(st.none() | st.integers(0, 99), values)),
    st.tuples(st.just("poll"), st.dictionaries(keys, st.lists(st.tuples(st.integers(0, 99), values)))),
)


def as_edn(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_edn(key)} {as_edn(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(map(as_edn, value)) + "]"
    return "nil" if value is None else json.dumps(value) if isinstance(value, str) else str(value)


def as_read(value):
    """Tuples as lists, all the way down."""
    if isinstance(value, dict):
        return {key: as_read(inner) for key, inner in value.items()}
    return [as_read(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@settings(max_examples=30)
@given(st.lists(mops, max_size=4))
def test_a_value_is_read_as_it_was_written_whatever_its_texts_hold(value):
    """Braces, commas, colons, quotes, backslashes, nil."""
    compare_read(value)


@pytest.mark.nightly
@settings(max_examples=2000, derandomize=False)
@given(st.lists(mops, max_size=4))
def test_thousands_of_values_are_read_as_they_were_written(value):
    compare_read(value)


def compare_read(value):
    text = as_edn(value)
    for mop in ("send", "poll"):
        text = text.replace(f'["{mop}"', f"[:{mop}")
    event = EdnLines().event(f"{{:type :ok, :f :txn, :value {text}, :time 5, :process 1, :index 2}}".encode())
    assert (event.type, event.f, event.process, event.time, event.index) == ("ok", "txn", 1, 5, 2)
    assert event.value == as_read(value)


def test_a_map_with_a_key_twice_keeps_both_values():
    assert edn.read("{0 [[1 2]], 0 [[3 4]]}") == [[0, [[1, 2]]], [0, [[3, 4]]]]
