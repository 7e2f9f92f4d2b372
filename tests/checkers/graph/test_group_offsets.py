"""Cycles through a group's offsets: which edges they give, which cycles are forbidden, and which histories have none."""

from __future__ import annotations

import json
from random import Random

import pytest
from support.histories import History, answer, finding, violated
from support.judging import judge_here
from support.pipeline_reference import PipelineHistory, offset_edges
from support.random_pipelines import pipeline_history

from fencepost.checkers.anomalies.cycles import CHECKS
from fencepost.checkers.api import run_check
from fencepost.checkers.graph.group_offsets import group_partitions
from fencepost.checkers.graph.layers import RW, WR, WW
from fencepost.checkers.model.results import CheckResult

MEMBERS = {"consumption": "recorded"}
KINDS = {WW: "ww", WR: "wr", RW: "rw"}
GRAPH = list(CHECKS.values())


class Members(History):
    """A story of the members of one group. Operations may overlap: `begin` and `end` are in milliseconds."""

    def transaction(self, process, begin, end, inputs, type="ok"):
        """A transaction that processes inputs (partition -> first offset, next offset) and makes nothing of them."""
        op = self.ops[self.txn(process, {}, type, time=begin, end=end, decided=None if type == "fail" else end - 1)]
        op["chains"] = [
            {"partition": p, "offset": first, "v": 1 << 40 | first, "output": None} for p, (first, _) in inputs.items()
        ]
        op["offsets"] = [{"partition": p, "offset": after} for p, (_, after) in inputs.items()]

    def fetch(self, process, begin, end, offsets, f="committed"):
        detail = json.dumps({"offsets": offsets})
        self.add(process, f, role="member", detail=detail, time=begin, end=end)


def judged(tmp_path, h, **contract):
    return judge_here(tmp_path, h.ops, {**MEMBERS, **contract}, GRAPH)


def cycle_classes(document):
    return [name for name in CHECKS if answer(document, name)["verdict"] == "violated"]


def handed_over():
    """Two members; the second goes on where the first ended."""
    h = Members()
    h.transaction(2, 0, 10, {"in-0": (0, 5)})
    h.fetch(3, 11, 12, {"in-0": 5})
    h.transaction(3, 13, 20, {"in-0": (5, 9)})
    return h


def test_two_transactions_that_each_go_on_where_the_other_ends_are_a_cycle(tmp_path):
    """Neither had committed when the other one's member fetched its offset."""
    h = Members()
    h.transaction(2, 0, 10, {"in-0": (0, 5), "in-1": (7, 9)})
    h.transaction(3, 1, 11, {"in-0": (5, 8), "in-1": (0, 7)})
    document = judged(tmp_path, h)
    assert "G1c-wr" in violated(document)
    sentence = finding(document, "G1c-wr")["sentence"]
    assert "T2 processed the records from T1's offset of the group on, in-0@5" in sentence
    assert "T1 processed the records from T2's offset of the group on, in-1@7" in sentence


def test_an_offset_that_is_fetched_before_its_transaction_is_decided_closes_a_cycle_with_the_order_of_a_process(tmp_path):
    h = Members()
    h.transaction(2, 0, 30, {"in-0": (0, 5), "in-1": (7, 9)})
    h.fetch(3, 1, 3, {"in-0": 5})
    h.transaction(3, 3, 10, {"in-1": (0, 7)})
    document = judged(tmp_path, h)
    assert violated(document) == ["G1c-wr-process"]
    sentence = finding(document, "G1c-wr-process")["sentence"]
    assert "T2 fetched T1's offset of the group, in-0@5" in sentence
    assert "T2 is question 0 of process 3" in sentence


def test_so_does_one_that_another_process_had_fetched_before(tmp_path):
    h = Members()
    h.transaction(2, 0, 30, {"in-0": (0, 5), "in-1": (7, 9)})
    h.fetch(3, 1, 2, {"in-0": 5})
    h.transaction(4, 3, 10, {"in-1": (0, 7)})
    assert violated(judged(tmp_path, h)) == ["G1c-wr-realtime"]


def test_going_on_where_another_had_committed_is_lawful(tmp_path):
    document = judged(tmp_path, handed_over())
    assert (violated(document), cycle_classes(document)) == ([], [])
    assert answer(document, "G1c-wr")["compared"] == 1
    assert answer(document, "G1c-wr-realtime")["compared"] == 2


def test_an_old_offset_that_is_fetched_after_the_next_one_was_committed_is_a_permitted_cycle(tmp_path):
    """As `stale-offset`: a coordinator that was frozen may answer from what it knew."""
    h = handed_over()
    h.fetch(2, 30, 31, {"in-0": 5})
    document = judged(tmp_path, h)
    assert (violated(document), cycle_classes(document)) == ([], ["G-single-realtime"])
    assert (
        "fetched the group's offset in-0@5 and not the next one, T1's in-0@9"
        in finding(document, "G-single-realtime")["sentence"]
    )


def test_offsets_that_are_committed_backwards_have_no_order(tmp_path):
    """A member that was rewound: which of two offsets was committed first, no number says."""
    h = handed_over()
    h.transaction(2, 30, 40, {"in-0": (2, 4)})
    assert cycle_classes(judged(tmp_path, h)) == []


@pytest.mark.parametrize("type", ["ok", "info"])
def test_an_offset_that_two_may_have_committed_is_nobodys(tmp_path, type):
    h = Members()
    h.transaction(2, 0, 10, {"in-0": (0, 5), "in-1": (7, 9)})
    h.transaction(3, 1, 11, {"in-0": (5, 8), "in-1": (0, 7)})
    h.transaction(4, 2, 12, {"in-0": (3, 5)}, type)
    assert cycle_classes(judged(tmp_path, h)) == []


def test_what_was_aborted_writes_nothing(tmp_path):
    h = Members()
    h.transaction(2, 0, 10, {"in-0": (0, 5), "in-1": (7, 9)}, "fail")
    h.transaction(3, 1, 11, {"in-0": (5, 8), "in-1": (0, 7)})
    assert cycle_classes(judged(tmp_path, h)) == []


def test_where_records_are_deleted_the_start_of_a_transaction_is_unknown(tmp_path):
    h = Members()
    h.transaction(2, 0, 10, {"in-0": (0, 5), "in-1": (7, 9)})
    h.transaction(3, 1, 11, {"in-0": (5, 8), "in-1": (0, 7)})
    assert cycle_classes(judged(tmp_path, h, compaction="true")) == []


def test_the_groups_offsets_at_the_end_are_fetched_too(tmp_path):
    h = handed_over()
    h.fetch(-1, 50, 51, {"in-0": 9}, "group-offsets")
    assert answer(judged(tmp_path, h), "G1c-wr-realtime")["compared"] == 3


@pytest.mark.parametrize("rounds", [8, pytest.param(2000, marks=pytest.mark.nightly)])
def test_random_pipelines_have_the_edges_of_the_reference(tmp_path, rounds):
    seen, kinds = [], set()

    @run_check("edges")
    def edges(run):
        """Edges through the offsets of the run's group."""
        parts = run.shared(group_partitions).items()
        seen.append({(edge.source, edge.target, KINDS[edge.kind], name) for name, some in parts for edge in some.edges()})
        return CheckResult(1)

    for seed in range(rounds):
        ops = sorted(pipeline_history(Random(f"group {seed}")), key=lambda op: op["time"])
        judge_here(tmp_path, ops, MEMBERS, [edges])
        expected = offset_edges(PipelineHistory(ops))
        assert seen[-1] == expected, seed
        kinds |= {kind for _, _, kind, _ in expected}
    assert kinds == {"ww", "wr", "rw"}
