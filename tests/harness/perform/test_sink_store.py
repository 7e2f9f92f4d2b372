"""The store of a sink: listed by commands, within bounds, and recorded as a final reader records a partition."""

from __future__ import annotations

import json
import sys

import pytest

from fencepost.harness.api import Isolation, Outcome, Program, Store
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform import sink_store
from fencepost.harness.perform.sink_store import ListingError, SinkStore, StoreOffsets, StoreReader, of_plan
from fencepost.workloads.sink import Sink

RUN = "r1"


def printing(text, status=0):
    return (sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.stderr.write('why'); sys.exit({status})")


def store(items="", positions="", bound_s=20.0, status=0):
    listed = Store(items=printing(items, status), positions=printing(positions), bound_s=bound_s)
    return SinkStore(listed, "store-0", {})


def test_an_item_is_a_line_and_empty_lines_are_none():
    assert store("a b\n\nc\r\n  \nd").items() == [b"a b", b"c", b"d"]


def test_the_offsets_of_the_store_are_lines_of_topic_partition_and_offset():
    assert store(positions="in 0 17\nin\t3\t4\n").positions() == {"in-0": 17, "in-3": 4}


@pytest.mark.parametrize("line", ["in 3", "in x 4", "in 3 4 5", "in 3 -"])
def test_another_line_among_the_offsets_is_named(line):
    with pytest.raises(ListingError, match=r"positions: .* is no line like"):
        store(positions=f"in 0 1\n{line}").positions()


def test_a_command_that_fails_says_why():
    with pytest.raises(ListingError, match=r"listing: .* ended with status 3: why"):
        store("a", status=3).items()


def test_a_command_that_does_not_end_is_ended():
    slow = SinkStore(Store(items=("sleep", "60"), bound_s=0.2), "store-0", {})
    with pytest.raises(ListingError, match=r"sleep did not end within 0.2 s \(listing_s\)"):
        slow.items()


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(ListingError, match="/no/such cannot be started"):
        SinkStore(Store(items=("/no/such",)), "store-0", {}).items()


def test_a_listing_that_is_too_long_is_not_cut_but_refused(monkeypatch):
    monkeypatch.setattr(sink_store, "MOST_LISTING", 10)
    assert store("a" * 9).items() == [b"a" * 9]
    with pytest.raises(ListingError, match="more than"):
        store("a" * 10).items()


def test_a_store_without_offsets_of_its_own_has_those_of_the_group():
    class Admin:
        def group_offsets(self, group, partitions):
            return {(group, *partitions): 1}

    none = SinkStore(Store(items=printing("a\nb")), "store-0", {})
    assert StoreOffsets(none, Admin).group_offsets("g", ["in-0"]) == {("g", "in-0"): 1}
    own = store(positions="in 0 5\nin 7 9")
    assert StoreOffsets(own, Admin).group_offsets("g", ["in-0", "in-1"]) == {
        "in-0": 5,
        "in-1": None,
    }
    assert StoreOffsets(none, Admin).end_offsets([], Isolation.COMMITTED) == {"store-0": 2}


def test_growth_is_looked_for_once_in_a_while():
    times = iter([0.0, 1.0, 4.0, 4.0])
    offsets = StoreOffsets(store("a"), None, clock=lambda: next(times))
    offsets.end_offsets([], Isolation.COMMITTED)
    offsets.store = store("a\nb")
    assert offsets.end_offsets([], Isolation.COMMITTED) == {"store-0": 1}
    assert offsets.end_offsets([], Isolation.COMMITTED) == {"store-0": 2}


def test_the_commands_find_the_directory_of_the_store(tmp_path):
    words = (sys.executable, "-c", "import os; print(os.environ['FENCEPOST_STORE']); print(os.environ['FENCEPOST_INPUT'])")
    program = Program(command=("true",), input="in", output="store", store=Store(items=words))
    plan = {"topics": {"x-in": {}}, "prefix": "x-"}
    assert of_plan(plan, program, tmp_path).items() == [str(tmp_path / "data" / "store").encode(), b"x-in"]
    assert (tmp_path / "data" / "store").is_dir()


def test_the_commands_name_outside_services_and_have_their_addresses_in_the_environment(tmp_path):
    words = (sys.executable, "-c", "import os; print('{service.shop-db.port}', os.environ['FENCEPOST_SERVICE_SHOP_DB'])")
    program = Program(command=("true",), input="in", output="store", store=Store(items=words, positions=("{service.other}",)))
    plan = {"topics": {"x-in": {}}, "prefix": "x-"}
    services = {"shop-db": "10.0.0.9:5432", "other": "10.0.0.8:1"}
    declared = {**plan, "cluster": {"description": {"services": services}}}
    made = of_plan(declared, program, tmp_path)
    assert made.items() == [b"5432 10.0.0.9:5432"]
    assert made.store.positions == ("10.0.0.8:1",)
    with pytest.raises(ListingError, match='service "shop-db": none is declared'):
        of_plan(plan, program, tmp_path)


def recorded(tmp_path, listed):
    """The completed operations of a reader of a store, and what it reports."""
    (tmp_path / "history").mkdir()
    writer, reports = HistoryWriter(tmp_path / "history" / "c5-0.jsonl", run=RUN, slot=5, node="c5", role="final", pid=1), []
    StoreReader(listed, writer, 7).run(Sink(), RUN, reports.append)
    writer.close()
    lines = [json.loads(line) for line in (tmp_path / "history" / "c5-0.jsonl").read_text().splitlines()]
    return [line for line in lines if line.get("type") in ("ok", "info")], reports


def test_the_items_are_outputs_of_a_final_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(sink_store, "CHUNK", 2)
    done, reports = recorded(tmp_path, store(f"{RUN}|0|1|0|x\nsomething\n{RUN}|0|1|1\n"))
    outputs = [line["value"][1] for line in done if line["f"] == "poll"]
    assert [mop[0] for mop in outputs] == ["output", "output"]
    assert [[offset for offset, _ in mop[1]["store-0"]] for mop in outputs] == [[0, 1], [2]]
    assert outputs[0][1]["store-0"][1][1] == -1
    assert "names no input of this run" in str(outputs[0][3])
    assert (done[-1]["f"], done[-1]["type"], done[-1]["value"]) == ("final-read", "ok", {"store-0": [0, 3, 3]})
    assert reports[-1] == {"final": Outcome.OK.value}


def test_an_empty_store_is_wholly_listed(tmp_path):
    done, _ = recorded(tmp_path, store(""))
    assert done[-1]["value"] == {"store-0": [0, 0, 0]}


def test_a_store_that_cannot_be_listed_is_no_complete_read(tmp_path):
    done, reports = recorded(tmp_path, store("a", status=1))
    assert [(line["f"], line["type"]) for line in done] == [("poll", "info"), ("final-read", "info")]
    assert done[0]["errors"][0]["name"] == "LISTING_FAILED"
    assert "what the sink's store holds is not known" in reports[1]["note"]
    assert reports[-1] == {"final": Outcome.INFO.value}
