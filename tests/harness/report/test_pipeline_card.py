"""The card of a finding, for an operation that processed input records."""

from fencepost.harness.report.operation_rows import _processed


def test_an_operation_shows_what_it_processed_and_what_it_was_to_commit():
    chain = {"partition": "in-0", "offset": 5, "v": 12, "output": 4096}
    row = {"chains": [chain, {**chain, "offset": 6, "v": 13, "output": None}], "offsets": [{"partition": "in-0", "offset": 7}]}
    first, second, offset = _processed(row, {("in-0", 12): "missing"})
    assert (first.verb, first.place, first.mark, first.note) == (
        "process",
        "in-0@5",
        "missing",
        "made: process 0, op 1, record 0",
    )
    assert (second.mark, second.note) == ("", "nothing was to be made of it")
    assert (offset.verb, offset.place) == ("group offset", "in-0@7")


def test_an_operation_of_a_history_without_pipelines_shows_nothing_more():
    assert list(_processed({"mops": []}, {})) == []
