"""The slow and complete reader of EDN, and the quick path beside it."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.interop.jepsen import edn
from harness.interop.jepsen.lines import EdnLines


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
    ],
)
def test_every_form_is_read(text, value):
    assert edn.read(text) == value


@pytest.mark.parametrize("text", ["", "[1", "]", "{:a}", '"open', "[1)", "1 2", "#"])
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


def unfolded(value):
    """Maps as the quick path gives them (flat lists) made equal to dicts, keys as texts."""
    mops = []
    for mop in value:
        if mop[0] == "poll" and len(mop) > 1:
            got = mop[1] if isinstance(mop[1], dict) else dict(zip(mop[1][::2], mop[1][1::2], strict=True))
            mops.append(["poll", {str(key): records for key, records in got.items()}])
        else:
            mops.append(list(mop))
    return mops


@given(st.lists(mops, max_size=4))
def test_the_quick_path_reads_what_the_slow_one_reads(value):
    """Whatever stands in texts: braces, commas, colons, quotes, nil."""
    text = as_edn(value)
    for mop in ("send", "poll"):
        text = text.replace(f'["{mop}"', f"[:{mop}")
    line = f"{{:type :ok, :f :txn, :value {text}, :time 5, :process 1, :index 2}}".encode()
    reader = EdnLines()
    reader.event(b"{:type :ok, :f :txn, :value [], :time 5, :process 1, :index 1}")  # teaches the shape
    event = reader.event(line)
    assert (event.type, event.f, event.process, event.time, event.index) == ("ok", "txn", 1, 5, 2)
    assert unfolded(reader.value(event, line)) == unfolded(edn.read(line.decode())["value"])
