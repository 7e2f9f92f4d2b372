"""Readers that stop while another partition takes no records, those that may, and the slow twin."""

from __future__ import annotations

from random import Random

import pytest
from support import delay_reference as twin
from support.histories import answer, finding, violated, write_faults
from support.judging import judge_here
from support.log_model import LogModel

from fencepost.checkers.anomalies.delayed_reads import delayed_read
from fencepost.checkers.contract.rules import full_contract, rule_for
from fencepost.checkers.selfcheck.selfcheck import selfcheck

SECOND = 1_000_000_000
BROKER_DOWN = {"id": 0, "kind": "kill", "targets": ["n1"], "injected_ns": 5 * SECOND, "healed_ns": 25 * SECOND, "effective": True}
WRITER, OTHER, READER, WITNESS = range(4)


class Story:
    """Writer 0 sends to t-0 every second, process 1 to t-1; process 2 and, if `witness`, process 3 read t-0 every half a second.

    Nothing sent to t-1 from second 5 to 25 has an answer.
    """

    def __init__(self, seconds=30, outage=(5, 25), stop=None, witness=True, silent=None, polls=True, busy=False, rng=None):
        self.m, self.seconds = LogModel(rng=rng), seconds
        for process in (WRITER, OTHER):
            self.m.initialise(process, f"id-{process}")
        self.read = {READER: 0, WITNESS: 0}
        seen = []
        for second in range(1, seconds):
            self._at(second)
            if silent is None or not silent[0] <= second < silent[1]:
                self.m.transaction(WRITER, {"t-0": 1})
                seen.append(max(row["offset"] for row in self.m.of("record", "t-0")))
            if not outage[0] <= second < outage[1]:
                self.m.transaction(OTHER, {"t-1": 1})
            elif second == outage[0]:
                self._unanswered()
            for half in (0.3, 0.8):
                self._at(second + half)
                stopped = stop is not None and stop[0] <= second < stop[1]
                if polls or not stopped:
                    self._poll(READER, [] if stopped else seen, busy and stopped)
                if witness:
                    self._poll(WITNESS, seen)

    def _at(self, second):
        self.m.h.now = max(self.m.h.now, round(second * SECOND))

    def _unanswered(self):
        self.m.h.txn(OTHER, {"t-1": [None]}, "info", end=None, decided=None)

    def _poll(self, process, seen, busy=False):
        got = seen[self.read[process] :]
        self.read[process] += len(got)
        reads = {"t-0": got} if got else {}
        if busy:  # with what was sent to t-1 before the outage
            reads = {"t-1": [row["offset"] for row in self.m.of("record", "t-1")][:1]}
        self.m.h.poll(process, reads, node=f"c{process}")

    def judged(self, folder, logs=True, faults=(BROKER_DOWN,), **contract):
        self.m.h.final({})
        write_faults(folder, *faults)
        if logs:
            return self.m.judged(folder, contract=contract, checks=[delayed_read])
        return judge_here(folder, self.m.h.ops, contract, [delayed_read])


def test_a_reader_that_stops_while_another_partition_is_unavailable_is_found(tmp_path):
    document = Story(stop=(7, 20)).judged(tmp_path, logs=False)
    assert violated(document) == ["delayed-read"]
    assert "only t-1 took no records meanwhile" in finding(document, "delayed-read")["sentence"]
    assert answer(document, "delayed-read")["compared"] == 2


def test_readers_that_go_on_hold(tmp_path):
    document = Story().judged(tmp_path)
    assert (answer(document, "delayed-read")["verdict"], answer(document, "delayed-read")["compared"]) == ("held", 2)


def test_without_an_outage_nothing_is_compared(tmp_path):
    assert answer(Story(outage=(5, 9), stop=(7, 20)).judged(tmp_path), "delayed-read")["verdict"] == "not exercised"


def test_a_reader_alone_is_found_by_the_logs_and_not_without_them(tmp_path):
    """Nobody else read, but records above the markers were acknowledged: the last stable offset had passed it."""
    assert violated(Story(stop=(7, 20), witness=False).judged(tmp_path)) == ["delayed-read"]
    assert not violated(Story(stop=(7, 20), witness=False).judged(tmp_path / "..", logs=False))


@pytest.mark.parametrize(
    ("how", "changes"),
    [
        ("it went on within the bound", {"stop": (7, 16)}),
        ("it did not poll", {"stop": (7, 20), "polls": False}),
        ("its partition stopped too", {"stop": (7, 20), "silent": (8, 15), "witness": False}),
        ("older records lay before it", {"stop": (7, 20), "busy": True}),
    ],
)
def test_who_may_wait(tmp_path, how, changes):
    assert not violated(Story(**changes).judged(tmp_path)), how


@pytest.mark.parametrize(
    "faults",
    [
        (BROKER_DOWN, {**BROKER_DOWN, "id": 1, "targets": ["n2"]}),
        ({**BROKER_DOWN, "targets": ["c2"]},),
        ({**BROKER_DOWN, "targets": [], "pairs": ["c2>n3"]},),
        ({**BROKER_DOWN, "targets": []},),
    ],
)
def test_a_fault_that_may_be_about_the_reader_excuses_it(tmp_path, faults):
    assert not violated(Story(stop=(7, 20)).judged(tmp_path, faults=faults))


def test_a_transaction_that_is_open_hides_what_follows(tmp_path):
    story = Story(seconds=30, stop=(7, 20), witness=False)
    for row in story.m.of("COMMIT", "t-0")[6:20]:
        row["kind"] = "control"  # as if there were none until the end
    assert not violated(story.judged(tmp_path))


def test_receipts_that_are_missing_leave_it_unknown(tmp_path):
    story = Story(stop=(7, 20))
    story.m.h.final({})
    document = judge_here(tmp_path, story.m.h.ops, None, [delayed_read], schedule=[{"id": 0}])
    assert answer(document, "delayed-read")["verdict"] == "unknown"


def test_settings_that_permit_it():
    def judged(**contract):
        return rule_for(delayed_read.rules, full_contract({"transactional": "true"}, contract)).judged

    assert judged() == "forbidden"
    assert judged(consumption="recorded") == judged(retention="1000") == "inapplicable"
    assert judged(acks="1", transactional="false", idempotence="false") == "allowed"
    assert judged(unclean_leader_election="true") == judged(topic_deletions="records") == "allowed"


def test_the_planted_stop_is_found():
    def no_session():
        raise AssertionError("no session is needed")

    rows = selfcheck(None, no_session, checks=[delayed_read], damages=delayed_read.damages)
    assert [(row.damage, row.ok) for row in rows] == [("none", True), ("reader-stop", True)]


@pytest.mark.parametrize("seed", range(12))
def test_the_slow_twin_finds_the_same(tmp_path, seed):
    rng = Random(seed)
    begin, lasts, stop = rng.randint(3, 8), rng.randint(9, 22), rng.randint(2, 10)
    silent = rng.choice((None, None, (9, 9 + rng.randint(2, 8))))
    story = Story(
        outage=(begin, begin + lasts),
        stop=(stop, stop + rng.randint(9, 20)),
        witness=rng.random() < 0.5,
        silent=silent,
        polls=rng.random() < 0.9,
        busy=rng.random() < 0.2,
        rng=rng,
    )
    fault = {**BROKER_DOWN, "injected_ns": begin * SECOND, "healed_ns": (begin + lasts) * SECOND}
    fault["targets"] = rng.choice((["n1"], ["n1"], ["n1"], ["n1"], ["c2"]))
    document = story.judged(tmp_path, faults=(fault,))
    rows = story.m.replicas(("n1",))
    expected = twin.delayed_reads(story.m.h.ops, rows, [fault])
    assert {int(row["sentence"].split()[1]) for row in document["findings"]} == {reader for reader, _ in expected}
