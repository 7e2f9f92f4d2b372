"""Positions of a source that are no count: what is judged of each kind, and what is unknown (docs/connect.md)."""

import json
from random import Random

import pyarrow.parquet as pq
import pytest
from support.histories import answer, finding, violated
from support.judging import judge_here
from support.random_sources import source_history, visible_in
from support.source_stories import CHECKS, CONTRACT, connector, row

SPARSE, ORDERED, UNSTATED = ({"positions": kind} for kind in ("sparse", "ordered", "unstated"))
PLANTED = {"source-duplicate", "source-loss"}


class Story:
    """Transactions of a connector, one after the other, in t-0 and in its offsets topic."""

    def __init__(self, form=int):
        self.target, self.stored, self.form = [], [], form

    def transaction(self, positions, stored=None, fate="COMMIT", producer=7):
        """Records at these positions, and the offset of the last one, or another one; False: none."""
        for at in positions:
            self.target.append(self._row("t-0", self.target, "record", at, producer))
        self.target.append(row("t-0", len(self.target), "", -1, fate, producer))
        if stored is not False:
            self.stored.append(self._row("o-0", self.stored, "offset", positions[-1] if stored is None else stored, producer))
            self.stored.append(row("o-0", len(self.stored), "", -1, fate, producer))
        return self

    def _row(self, partition, rows, kind, at, producer):
        if self.form is int:
            return row(partition, len(rows), "a", at, kind, producer)
        parts, number = self.form(at)
        words = f"{kind} at {json.dumps(parts, separators=(',', ':'))}"
        return row(partition, len(rows), "a", number if kind == "record" else 0, words, producer)

    def judged(self, folder, contract):
        return connector(folder, self.target, self.stored, contract)


def reason(document, name):
    return answer(document, name)["verdict"], answer(document, name)["reason"]


LSNS = [10601, 26472360, 26472400, 26480000, 26480056]


# --------------------------------------------------------------------------------------------------
# Nobody has said what positions are
# --------------------------------------------------------------------------------------------------
def test_a_log_sequence_number_is_no_count_and_its_gaps_are_no_loss(tmp_path):
    document = Story().transaction(LSNS[:2]).transaction(LSNS[2:]).judged(tmp_path, UNSTATED)
    assert violated(document) == []
    verdict, why = reason(document, "source-loss")
    assert verdict == "unknown"
    assert "of 26,469,456 between the first and the last one 5 are there" in why
    assert "`positions`" in why
    assert answer(document, "source-offset-torn")["compared"] == 5
    assert violated(Story().transaction(LSNS[:2]).transaction(LSNS[2:]).judged(tmp_path, None)) == ["source-loss"]


def test_positions_that_are_nearly_all_there_are_a_count(tmp_path):
    there = [at for at in range(40) if at != 17]
    document = Story().transaction(there[:20]).transaction(there[20:]).judged(tmp_path, UNSTATED)
    assert violated(document) == ["source-loss"]
    assert finding(document, "source-loss")["sentence"].startswith("Record 17 of source a is not there")


def test_records_of_one_transaction_with_one_position_are_no_duplicates(tmp_path):
    document = Story().transaction([1, 1, 1, 2]).transaction([2, 3]).judged(tmp_path, UNSTATED)
    assert violated(document) == []
    assert "one task wrote several records with one position, as t-0@1" in reason(document, "source-duplicate")[1]
    again = Story().transaction([*range(20)]).transaction([19, 20], producer=8).judged(tmp_path, UNSTATED)
    assert violated(again) == ["source-duplicate"]


@pytest.mark.parametrize("contract", [SPARSE, ORDERED, UNSTATED])
def test_a_stored_offset_that_is_no_records_position_accuses_nobody(tmp_path, contract):
    """As `pos` of a MySQL offset, which is where the transaction begins, and not where its rows are."""
    story = Story()
    for producer, first in enumerate(range(100, 600, 100)):
        story.transaction([first + 10, first + 20], stored=first, producer=producer + 7)
    document = story.judged(tmp_path, contract)
    assert violated(document) == []
    for name in ("source-offset-torn", "source-offset-regression"):
        assert "of 5 in 5 producers and epochs the stored offset does not fit" in reason(document, name)[1]
    assert violated(story.judged(tmp_path, None)) == ["source-loss", "source-offset-torn"]


# --------------------------------------------------------------------------------------------------
# Sparse
# --------------------------------------------------------------------------------------------------
def sparse(*after):
    """Positions 10 and 25 committed, 40 and 42 aborted with their task, then what the next task writes."""
    story = Story().transaction([10, 25]).transaction([40, 42], fate="ABORT")
    for positions in after:
        story.transaction(positions, producer=8)
    return story


def test_what_was_aborted_and_came_again_is_there(tmp_path):
    document = sparse([40, 42, 57]).judged(tmp_path, SPARSE)
    assert violated(document) == []
    assert answer(document, "source-loss")["compared"] == 2


def test_what_was_aborted_and_never_came_again_is_lost(tmp_path):
    document = sparse([42, 57]).judged(tmp_path, SPARSE)
    assert violated(document) == ["source-loss"]
    assert finding(document, "source-loss")["sentence"] == (
        "Record 40 of source a is not there: a task wrote it at t-0@3, in a transaction that was aborted, and the complete "
        "read_committed final read has 42 at t-0@6, and not 40."
    )


def test_what_was_aborted_last_may_still_come(tmp_path):
    document = sparse().judged(tmp_path, SPARSE)
    assert violated(document) == []
    assert answer(document, "source-loss")["verdict"] == "not exercised"
    assert "`sequence_by` would tell" in reason(document, "source-loss")[1]


@pytest.mark.parametrize(("stored", "lost"), [(42, {40: 3, 42: 4}), (40, {40: 3}), (25, {}), (99, {40: 3, 42: 4})])
def test_what_was_aborted_and_lies_below_the_stored_offset_never_comes_again(tmp_path, stored, lost):
    """Committed by itself, as by a task that dies behind its first request to commit."""
    document = sparse().transaction([], stored=stored, producer=8).judged(tmp_path, SPARSE)
    assert [row["sentence"] for row in document["findings"] if row["anomaly"] == "source-loss"] == [
        f"Record {at} of source a is not there: a task wrote it at t-0@{place}, in a transaction that was "
        f"aborted, and the complete read_committed final read does not have it, though the source's offset is {stored}, at o-0@4."
        for at, place in lost.items()
    ]


def test_an_offset_that_has_gone_back_reaches_what_lies_below_it_now(tmp_path):
    story = sparse().transaction([], stored=42, producer=8).transaction([], stored=25, producer=9)
    assert "source-loss" not in violated(story.judged(tmp_path, SPARSE))


def test_a_sparse_position_that_is_there_twice_and_an_offset_that_goes_back_are_found(tmp_path):
    document = sparse([25, 40, 42]).judged(tmp_path, SPARSE)
    assert violated(document) == ["source-duplicate"]
    back = sparse([40, 42]).transaction([42, 43], stored=30, producer=9)
    assert "source-offset-torn" in violated(back.judged(tmp_path, SPARSE))


# --------------------------------------------------------------------------------------------------
# Ordered
# --------------------------------------------------------------------------------------------------
def test_of_ordered_positions_only_the_stored_offsets_are_judged(tmp_path):
    story = Story().transaction([5, 5, 5]).transaction([5, 9, 9])
    document = story.judged(tmp_path, ORDERED)
    assert violated(document) == []
    assert {reason(document, name)[0] for name in PLANTED} == {"not exercised"}
    assert answer(document, "source-offset-torn")["compared"] == 6
    torn = story.transaction([12], stored=False, producer=8).transaction([13], producer=9)
    assert violated(torn.judged(tmp_path, ORDERED)) == ["source-offset-torn"]


# --------------------------------------------------------------------------------------------------
# Several parts, and a number in a sequence
# --------------------------------------------------------------------------------------------------
def in_files(at):
    """Position 3 of file 9 as 903: files and numbers rise, as texts they would not."""
    return [f"binlog.{at // 100}" if at < 100_000 else "c", at % 100], -1


FILES = [[901, 902], [950, 1003]]


def test_positions_of_several_parts_are_in_the_order_of_these(tmp_path):
    story = Story(lambda at: ([at // 100, "row", at % 100], -1))
    for positions in FILES:
        story.transaction(positions)
    document = story.judged(tmp_path, SPARSE)
    assert violated(document) == []
    assert answer(document, "source-offset-torn")["compared"] == 4
    again = story.transaction([950, 1010], producer=8).judged(tmp_path, SPARSE)
    assert violated(again) == ["source-duplicate"]
    assert "Record 9, row, 50 of source a is there more than once" in finding(again, "source-duplicate")["sentence"]


def test_what_is_missing_between_positions_of_several_parts_is_unknown_unless_somebody_says_more(tmp_path):
    document = Story(in_files).transaction([901, 905]).judged(tmp_path, UNSTATED)
    assert violated(document) == []
    assert "positions have several parts" in reason(document, "source-loss")[1]


def test_parts_that_are_no_numbers_and_texts_tell_no_position(tmp_path):
    document = connector(tmp_path, [row("t-0", 0, "a", -1, 'record at [{"x":1}]')], [], SPARSE)
    assert "do not tell their position" in reason(document, "source-duplicate")[1]


def numbered(at):
    """A log sequence number beside the row's own number."""
    return [at * 56 + 26472360], at


def test_a_number_in_a_sequence_tells_what_is_missing_and_the_position_links_it_with_its_offset(tmp_path):
    document = Story(numbered).transaction([0, 1]).transaction([2, 3]).judged(tmp_path, UNSTATED)
    assert violated(document) == []
    assert {name: answer(document, name)["compared"] for name in ("source-loss", "source-offset-torn")} == {
        "source-loss": 4,
        "source-offset-torn": 4,
    }
    lost = Story(numbered).transaction([0, 1]).transaction([4, 5]).judged(tmp_path, UNSTATED)
    assert violated(lost) == ["source-loss"]
    assert finding(lost, "source-loss")["sentence"] == (
        "Records 2 to 3 of source a are not there: the complete read_committed final read has 1 at t-0@1 and 4 at t-0@3."
    )
    twice = Story(numbered).transaction([0, 1]).transaction([1, 2], producer=8).judged(tmp_path, UNSTATED)
    assert finding(twice, "source-duplicate")["sentence"].startswith("Record 1 of source a is there more than once")


# --------------------------------------------------------------------------------------------------
# As slow twins say
# --------------------------------------------------------------------------------------------------
def spread(entry):
    """The same entry with a number in a sequence, beside a sparse position."""
    kind = entry["kind"].partition(" ")[0]
    if kind not in ("record", "offset") or entry["number"] < 0:
        return entry
    at = f"{kind} at [{entry['number'] * 7 + 3}]"
    return {**entry, "kind": at, "number": entry["number"] if kind == "record" else 0}


def numbers_of(ops):
    """Source -> the numbers of its visible records, as the final read has them."""
    rows = [
        entry
        for op in ops
        if op["final"] and op["isolation"] == "read_committed"
        for entry in op.get("entries") or ()
        if entry["kind"].startswith("record")
    ]
    return {name: sorted(row["number"] for row in rows if row["name"] == name) for name in {row["name"] for row in rows}}


@pytest.mark.parametrize("seed", range(8))
def test_numbers_in_a_sequence_are_judged_as_a_slow_twin_does(tmp_path, seed):
    rng = Random(seed)
    ops = [op for op in source_history(rng) if op["f"] != "rest"]
    for op in ops:
        op["entries"] = [spread(entry) for entry in op.get("entries") or () if "/" not in entry["kind"]]
    numbers = numbers_of(ops)
    lost = {(name, at) for name, known in numbers.items() for at in range(known[0], known[-1]) if at not in known}
    twice = {(name, at) for name, known in numbers.items() for at in known if known.count(at) > 1}
    document = judge_here(tmp_path, sorted(ops, key=lambda op: op["time"]), {**CONTRACT, **UNSTATED}, CHECKS)
    findings = pq.read_table(tmp_path / "anomalies.parquet").to_pylist()
    found = {name: sum(row["anomaly"] == name for row in findings) for name in PLANTED}
    assert bool(lost) == bool(found["source-loss"]), document["findings"]
    assert bool(twice) == bool(found["source-duplicate"])


@pytest.mark.parametrize("seed", range(8))
def test_sparse_losses_are_those_of_a_slow_twin(tmp_path, seed):
    """Three lives of a task, each of which is aborted now and then and reads on, and now and then forgets a position."""
    rng, story, at, lost, written = Random(seed), Story(), 0, set(), set()
    for producer in range(7, 20):
        positions = [at + 3 * n for n in range(rng.randint(1, 4))]
        kept = [number for number in positions if rng.random() < 0.9 or number not in written] or positions
        fate = rng.choice(["COMMIT", "ABORT"])
        story.transaction(kept, fate=fate, producer=producer)
        written |= set(kept)
        at = positions[-1] + 3 if fate == "COMMIT" else at
    if seed % 2:
        story.transaction([at, at + 3], producer=30)
    else:
        story.transaction([], stored=at - 3, producer=30)
    there = {entry["number"] for entry in visible_in(story.target)}
    reached = story.stored[-2]["number"] + 1
    lost = {number for number in written - there if min(there) < number < max(reached, *there)}
    document = story.judged(tmp_path, SPARSE)
    findings = pq.read_table(tmp_path / "anomalies.parquet").to_pylist()
    missing = {
        next(record["offset"] for record in row["records"] if record["role"] == "sent")
        for row in findings
        if row["anomaly"] == "source-loss"
    }
    assert {story.target[offset]["number"] for offset in missing} == lost, document["findings"]
