"""Up to when files of a record are whole, by the numbers of their lines."""

from __future__ import annotations

import json

import pytest

from fencepost.harness.api.wire import NodeRecord
from fencepost.harness.proxy import record

REQUEST = {"at": "request", "node": "n1", "connection": 1, "api": "EndTxn", "version": 1}


def lines(*times, node="n1", first=0, end=True):
    """Requests that arrived at some times, in a file that is whole unless it has no end."""
    made = [{"at": "begin", "nodes": [node], "first": first, "time_ns": times[0] - 1}]
    made += [{**REQUEST, "n": first + time, "node": node, "arrived_ns": time} for time in times]
    made += [{"at": "end", "lines": len(made) + 1}] if end else []
    return [{"line": number, **line} for number, line in enumerate(made)]


def ends(directory, **files):
    for name, some in files.items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in some))
    return record.recorded(directory).nodes


def test_whole_files_of_two_brokers(tmp_path):
    assert ends(tmp_path, n1=lines(10, 20), n2=lines(15, node="n2")) == {"n1": NodeRecord(), "n2": NodeRecord()}


@pytest.mark.parametrize(
    ("missing", "until", "why"),
    [
        ([2], 11, "1 line is missing behind line number 1"),
        ([3, 4], 21, "2 lines are missing behind line number 2"),
        ([2, 4], 11, "1 line is missing behind line number 1"),
        ([0], 0, "1 line is missing at its beginning"),
        ([5], 41, "it has no last line: the proxy still runs, was killed, or lines at the end are missing"),
    ],
)
def test_a_record_is_whole_up_to_the_first_gap(tmp_path, missing, until, why):
    some = [line for line in lines(10, 20, 30, 40) if line["line"] not in missing]
    assert ends(tmp_path, n1=some) == {"n1": NodeRecord(until, why)}


def test_times_of_any_kind_count(tmp_path):
    """An answer that is written before the gap was there, whenever its request came."""
    some = lines(10, 20, 30)
    some[2] = {"line": 2, "at": "answer", "n": 10, "answered_ns": 24, "returned_ns": 25}
    assert ends(tmp_path, n1=some[:3])["n1"].until_ns == 26


def test_a_line_without_its_request_behind_a_gap_is_left_out(tmp_path):
    some = [*lines(10, 20, 30)[:2], {"line": 4, "at": "answer", "n": 20, "answered_ns": 24}]
    ends(tmp_path, n1=some)
    assert record.read(tmp_path)["number"].to_pylist() == [10]


def test_another_proxy_took_the_place(tmp_path):
    first, second = lines(10, 20, end=False), lines(50, first=1 << 32)
    why = "its proxy had ended, and another one took its place"
    assert ends(tmp_path, n1=first, **{"n1-2": second}) == {"n1": NodeRecord(21, why)}


def test_of_several_brokers_one_has_a_gap(tmp_path):
    found = ends(tmp_path, n1=lines(10, 20)[:2], n2=lines(15, node="n2"))
    assert [found["n1"].until_ns, found["n2"].until_ns] == [11, None]


def test_lines_without_numbers_show_no_gap(tmp_path):
    some = [{key: value for key, value in line.items() if key != "line"} for line in lines(10, 20)[1:-1]]
    assert ends(tmp_path, n1=some) == {"n1": NodeRecord()}
    assert not record.recorded(tmp_path).numbered
