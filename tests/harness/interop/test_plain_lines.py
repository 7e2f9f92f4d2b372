"""Plain lines of EDN and JSON read all at once: the same as line by line, whatever stands between them."""

from __future__ import annotations

import random
import re

import pytest

import fencepost.harness.interop.jepsen.plain_lines as module
from fencepost.harness.interop.blocks import Block
from fencepost.harness.interop.jepsen import parsed_blocks
from fencepost.harness.interop.jepsen.operation_rows import mapped
from fencepost.harness.interop.jepsen.plain_lines import plain_lines

OLD = "{{:type :{type}, :f :{f}, :value {value}, :time {time}, :process {process}, :index {index}}}"
NEW = "#jepsen.history.Op{{:index {index}, :time {time}, :type :{type}, :process {process}, :f :{f}, :value {value}}}"
JSON = '{{"index":{index},"time":{time},"type":"{type}","process":{process},"f":"{f}","value":{value}}}'
SPACED = '{{"type": ":{type}", "f": ":{f}", "process": {process}, "time": {time}, "index": {index}, "value": {value}}}'
LANGUAGES = {OLD: "edn", NEW: "edn", JSON: "json", SPACED: "json"}
ODD = [
    "r",
    "[[:send 0 5] s]",
    "[[:send 0 \x80]]",
    "[[:send 0 \x01]]",
    "[[:send 0 [nil 5]]]",
    "[[:send -1 5]]",
    "[[:send 0 5.5] [:send 0 5N]]",
    "[[:send 0 99999999999999999]]",
    '[[:send "0" 5]]',
    "[0 1]",
    "[[0 1]]",
    "[[:poll {0 [[1 2]] 1}]]",
    "[[:poll {0 [[1 2 3]]}]]",
    "[[:poll {0 [[1 2]], 0 [[3 4]]}]]",
    "[[:send   0,5][:poll]]",
    "[[:send 0 007]]",
    "[[:poll {00 [[1 2]], 0 [[3 4]]}]]",
    "[]",
    "nil",
]
JSON_TEXTS = ((r":(send|poll|nemesis|error|timeout)", r'"\1"'), (r"([\d\"\]}]) +(?=[\d\"\[{])", r"\1,"), (r"nil", "null"))


def as_written(value: str, language: str) -> str:
    """A value of EDN in a language; what has no counterpart there stays as it is, and cannot be read."""
    if language == "json":
        value = re.sub(r"([{,] *)(\d+) (?=\[)", r'\1"\2":', value)
        for pattern, replacement in JSON_TEXTS:
            value = re.sub(pattern, replacement, value)
    return value


ERRORS = {"edn": (", :error [:timeout 5]}", ":nemesis"), "json": (', "error": ["timeout", 5]}', '"nemesis"')}


def parsed_text(text: str, language: str, folder, monkeypatch, at_once: bool):
    """Rows of a text, read at once or line by line."""
    with monkeypatch.context() as patch:
        if not at_once:
            patch.setattr(parsed_blocks, "plain_lines", lambda text, lines, language: None)
        parsed = parsed_blocks.parse_block(Block(7, text.encode()), language, "history", folder / f"spill-{at_once}")
    for seen in (*parsed.early, *parsed.opened.values()):
        seen.event.transactional = seen.event.transactional is not False
    tables = [mapped(path).to_pylist() for path in (parsed.ops, parsed.mops)]
    return tables, {name: value for name, value in vars(parsed).items() if name != "spill"}


def lines(shape: str, seed: int, odd: float) -> str:
    """Some processes' operations, the first and last of which may lack an end, with errors and other lines among them."""
    rng, text = random.Random(seed), []
    doing: dict[int, str] = {}
    for index in range(300):
        process = rng.randrange(6)
        f = doing.pop(process, None) if rng.random() < 0.95 else None
        type_ = rng.choice(["ok", "ok", "ok", "fail", "info"]) if f or rng.random() < 0.03 else "invoke"
        f = f or rng.choice(["txn", "txn", "send", "poll"])
        if type_ == "invoke":
            doing[process] = f
        value = rng.choice(ODD) if rng.random() < odd else f"[{' '.join(_mop(rng, type_) for _ in range(rng.randrange(4)))}]"
        written = as_written(value, LANGUAGES[shape])
        line = shape.format(type=type_, f=f, value=written, time=index * 10, process=process, index=index)
        error, nemesis = ERRORS[LANGUAGES[shape]]
        text.append(line[:-1] + error if type_ == "info" and rng.random() < 0.5 else line)
        if rng.random() < odd:
            text.append(rng.choice(["", "; a comment", line[: len(line) // 2], line.replace(str(process), nemesis)]))
    return "\n".join(text)


def _mop(rng: random.Random, type_: str) -> str:
    key, place, value = rng.randrange(3), rng.randrange(10**6), rng.randrange(10**13)
    if rng.random() < 0.5:
        return f"[:send {key} {value}]" if type_ != "ok" else f"[:send {key} [{place} {value}]]"
    if type_ in ("invoke", "info") and rng.random() < 0.7:
        return "[:poll]"
    keys = [f"{key} [{_records(rng, place)}]" for key in rng.sample(range(3), rng.randrange(3))]
    return f"[:poll {{{', '.join(keys)}}}]"


def _records(rng: random.Random, place: int) -> str:
    return " ".join(f"[{place + number} {rng.randrange(10**13)}]" for number in range(rng.randrange(3)))


def same_both_ways(text: str, language: str, folder, monkeypatch) -> bool:
    """True if a text read at once gives the same as read line by line."""
    at_once, by_line = (parsed_text(text, language, folder, monkeypatch, way) for way in (True, False))
    return at_once == by_line


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 100), marks=pytest.mark.nightly)])
@pytest.mark.parametrize("odd", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("shape", LANGUAGES)
def test_all_at_once_or_line_by_line(shape, odd, seeds, tmp_path, monkeypatch):
    for seed in seeds:
        assert same_both_ways(lines(shape, seed, odd), LANGUAGES[shape], tmp_path, monkeypatch), seed


def test_a_long_block_is_taken_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 700)
    for seed in range(5):
        assert same_both_ways(lines(NEW, seed, 0.05) + "\n" * (seed % 2), "edn", tmp_path, monkeypatch), seed


@pytest.mark.parametrize("shape", LANGUAGES)
def test_what_only_looks_plain_is_read_line_by_line(shape, tmp_path, monkeypatch):
    """Beside one that is plain, so that the order of the keys is known."""
    for value in ODD:
        values = [("invoke", "[[:send 0 1]]"), ("ok", "[[:send 0 [0 1]]]"), ("invoke", value), ("ok", value)]
        written = [(type_, as_written(edn, LANGUAGES[shape])) for type_, edn in values]
        text = "\n".join(shape.format(type=type_, f="txn", value=edn, time=1, process=0, index=0) for type_, edn in written)
        assert same_both_ways(text, LANGUAGES[shape], tmp_path, monkeypatch), value


@pytest.mark.parametrize("shape", LANGUAGES)
def test_nearly_every_line_is_plain(shape):
    """All but those with an error."""
    text = lines(shape, 0, 0.0).encode()
    known = plain_lines(text, text.split(b"\n"), LANGUAGES[shape])
    assert known is not None
    assert [row >= 0 for row in known.rows] == [b"error" not in line for line in text.split(b"\n")]


@pytest.mark.parametrize(("shape", "process"), [(OLD, ":process {}"), (JSON, '"process":{}')])
def test_a_number_beyond_64_bits_leaves_the_block_to_the_lines(shape, process, tmp_path, monkeypatch):
    text = lines(shape, 0, 0.0).replace(process.format(5), process.format("99999999999999999999"), 1)
    assert plain_lines(text.encode(), text.encode().split(b"\n"), LANGUAGES[shape]) is None
    assert same_both_ways(text, LANGUAGES[shape], tmp_path, monkeypatch)
