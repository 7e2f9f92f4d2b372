"""UTC of a run's moments, and how exact it is."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.documents import read
from fencepost.harness.report.wall_clock import WallClock, date_of, wall_clock

AHEAD = 1_700_000_000_000_000_000
MS = 1_000_000


def header(time, ahead=AHEAD, **fields):
    return json.dumps({"format": "fencepost-history", "version": 1, "time": time, "wall": time + ahead} | fields).encode() + b"\n"


def a_run(folder, *, plan=None, rows=(), **files):
    rows = example.ordered([example.op(0, 0, 10, 5), *rows])
    example.write(folder, example.plan(**(plan or {})), example.verdict(rows, []), rows, [])
    (folder / "history").mkdir()
    for name, content in files.items():
        (folder / "history" / name.replace("_", "-")).with_suffix(".jsonl").write_bytes(content)
    return open_run(folder)


def clock_of(run):
    return wall_clock(run, read(run).ops)


def test_the_headers_of_the_history_say_it(tmp_path):
    clock = clock_of(
        a_run(tmp_path, c0_0=header(example.START) + b'{"type": "invoke"}\n', c1_0=header(example.START + MS, AHEAD + 400))
    )
    assert clock.utc(example.START + 5 * MS) == date_of((example.START + AHEAD) // MS + 5)[11:]
    assert clock.error_ns == MS
    assert clock.words == "UTC by the headers of the history's files: 2 readings of both clocks differ by 1 ms at most"


def test_a_packed_file_says_it_too(tmp_path):
    clock = clock_of(a_run(tmp_path, c0_0=gzip.compress(header(example.START) + b"x" * 100_000)))
    assert clock.readings == ((example.START, AHEAD),)


def test_a_clock_that_was_set_counts_from_then_on(tmp_path):
    """A worker that was started again read both clocks again."""
    clock = clock_of(a_run(tmp_path, c0_0=header(example.START), c0_1=header(example.START + 9_000 * MS, AHEAD + 5_000 * MS)))
    assert clock.ms(example.START) == (example.START + AHEAD) // MS
    assert clock.ms(example.START + 9_001 * MS) == (example.START + AHEAD) // MS + 14_001
    assert "differ by 5,000 ms at most" in clock.words


@pytest.mark.parametrize("ns", [example.START, example.START + 123 * MS, example.START + 10**12])
def test_a_date_leads_back_to_its_moment(ns):
    clock = WallClock(((example.START, AHEAD),), "headers")
    assert abs(clock.ns(clock.ms(ns)) - ns) < MS


def test_without_the_files_the_looks_at_open_transactions_say_it(tmp_path):
    answer = {"asked_ms": (example.START + AHEAD) // MS + 20}
    look = example.op(-1, 0, 20, 5, f="list-transactions", role="harness", detail=json.dumps(answer))
    clock = clock_of(a_run(tmp_path, rows=[look]))
    assert clock.ms(example.START) == (example.START + AHEAD) // MS
    assert "looks at open transactions" in clock.words


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"[]\n", b"{", b'{"time": "x", "wall": 1}\n', b'{"time": -1, "wall": -1}\n', b"\x1f\x8b\x00", b"[" * 5_000,
     b'{"time": 1, "wall": 1e99}\n', json.dumps({"time": 1, "wall": 10**40}).encode()],
)  # fmt: skip
def test_headers_that_say_nothing_say_nothing(tmp_path, content):
    assert clock_of(a_run(tmp_path, c0_0=content)) is None


def test_an_adopted_history_has_no_clock(tmp_path):
    """Its times are its own, whatever a file in its directory says."""
    assert clock_of(a_run(tmp_path, plan={"source": {"format": "jepsen"}}, c0_0=header(example.START))) is None


def test_no_link_is_followed_and_no_pipe_opened(tmp_path):
    (tmp_path / "elsewhere").write_bytes(header(example.START))
    run = a_run(tmp_path / "run")
    (run.directory / "history" / "c0-0.jsonl").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(run.directory / "history" / "c1-0.jsonl")
    assert clock_of(run) is None


@pytest.mark.parametrize(
    ("ms", "date"), [(0, "1970-01-01 00:00:00.000"), (1_700_000_000_007, "2023-11-14 22:13:20.007"), (-1, ""), (1 << 62, "")]
)
def test_dates_are_written_in_utc(ms, date):
    assert date_of(ms) == date
