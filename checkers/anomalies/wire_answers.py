"""What clients reported, and which records brokers granted, beside the brokers' answers on the wire (docs/wire.md).

Each docstring is the definition of its anomaly (KIP-98).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import DECIDING, SENDING
from fencepost.checkers.contract.common_rules import UNLESS_IDEMPOTENT, UNLESS_REPORTED
from fencepost.checkers.contract.needs import OUTCOMES, SENDS, WIRE, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.producer_pools import with_unnamed_producers
from fencepost.checkers.pipeline.wire_findings import WireFinding, WireResult, explained_by_wire, found_on_wire, whole
from fencepost.checkers.pipeline.wire_log import Row, WireLog, batches
from fencepost.checkers.selfcheck.wire_damages import DISOWNED, REUSED, UNWRITTEN
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.wire.states import NONE as GRANTED
from fencepost.harness.api.promises import ACKNOWLEDGED, ONCE

NO_BATCHES = "no batch of an idempotent producer was granted on the wire"
UNNAMED_TOPICS = "some requests name topics by ids that the record does not tell"
TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
BY_ID = 13  # the version of Produce from which requests name topics by their ids (KIP-516)
NO_PROMISES = "no acknowledged transaction, and no acknowledged record, of a client whose requests are recorded"
COLUMNS = ("index", "transactional_id", "f", "type", "intent", "time", "end")


# --------------------------------------------------------------------------------------------------
# sequence-reuse
# --------------------------------------------------------------------------------------------------
def reused_numbers(run: RunView) -> WireResult:
    """Granted batches with the producer id, epoch, partition and first sequence number of another one, and other content."""
    log = whole(run)
    first: dict[tuple[int, int, str, int], int] = {}
    found = []
    for row in log.rows:
        if row["api"] != "Produce":
            continue
        for partition, batch, error in batches(row):
            if error != GRANTED or batch["producer_id"] < 0 or batch.get("crc") is None or "control" in batch:
                continue
            name = f"{partition['topic']}-{partition['partition']}"
            key = (batch["producer_id"], batch["epoch"], name, batch["first_sequence"])
            if first.setdefault(key, batch["crc"]) != batch["crc"]:
                sentence = (
                    f"{row['node']} granted two different batches for {name} with producer id {key[0]}, epoch {key[1]} and first "
                    f"sequence number {key[3]}"
                )
                found.append(WireFinding(row["transactional_id"] or "", row["answered_ns"], sentence, key[0]))
    return WireResult(len(first), found, NO_BATCHES, "" if found else log.why)


@run_check(
    "sequence-reuse",
    promise=ONCE,
    rules=(
        UNLESS_IDEMPOTENT,
        Rule(FORBIDDEN, "a sequence number of a producer id and epoch stands for one record of a partition (KIP-98)"),
    ),
    evidence=Needs({WIRE}, "what is missing of the record may have shown it"),
    occasions=SENDING,
    damages=(REUSED,),
    explain=explained_by_wire(reused_numbers),
    across=True,
    needs=NO_BATCHES,
)
def sequence_reuse(run: RunView) -> CheckResult:
    """Brokers granted two batches with one producer id, epoch, partition and first sequence number, and different content.

    By their checksums, as they were on the wire (`wire.parquet`). The second one was taken for the first, sent again: its records
    are acknowledged and nowhere; or it was appended. A producer that moved its sequence numbers back did it, or a broker that
    does not compare them.

    compared: different such quadruples. One cause: the producer id.
    """
    return found_on_wire(reused_numbers)(run)


# --------------------------------------------------------------------------------------------------
# unproven-ack
# --------------------------------------------------------------------------------------------------
def unproven(run: RunView) -> WireResult:
    """Acknowledgements of clients that no broker gave."""
    log = whole(run)
    if log.why:
        return WireResult(0, unknown=log.why)
    if _unnamed(log):
        return WireResult(0, unknown=UNNAMED_TOPICS)
    decided, ends = _unproven_ends(run, log)
    written, records = _unproven_records(run, log)
    return WireResult(decided + written, [*ends, *records], NO_PROMISES)


def _unnamed(log: WireLog) -> bool:
    """True if a request to write has a topic's id where its name should be."""
    by_ids = (row for row in log.rows if row["api"] == "Produce" and row["version"] >= BY_ID)
    places = (place for row in by_ids for place in json.loads(row["partitions"] or "[]"))
    names = ((str(place.get("topic")), place.get("topic_id")) for place in places)
    return any(TOPIC_ID.fullmatch(topic) and topic_id in (None, topic) for topic, topic_id in names)


def _unproven_ends(run: RunView, log: WireLog) -> tuple[int, list[WireFinding]]:
    """How many acknowledged transactions were compared, and those whose EndTxn no broker granted, or granted the other way."""
    recorded = {row["transactional_id"] for row in log.rows if row["api"] == "InitProducerId" and row["error"] == GRANTED}
    by_id: dict[str, list[Row]] = defaultdict(list)
    for row in log.rows:
        if row["api"] == "EndTxn" and (row["answered_ns"] is None or row["error"] == GRANTED or row["made_by_proxy"]):
            by_id[row["transactional_id"]].append(row)
    ends, none = {name: _Ends(rows) for name, rows in by_id.items()}, _Ends(())
    table = run.history.of_kind(COLUMNS, "txn").select(list(COLUMNS)).to_pandas()
    judged = recorded - with_unnamed_producers(recorded, table["transactional_id"].unique())
    fine = table[(table["type"] == "ok") & table["transactional_id"].isin(judged) & table["end"].notna()]
    sent = set(run.sends_of(fine["index"].to_numpy(dtype=np.int64))["op"].tolist()) if len(fine) else set()
    found, compared = [], 0
    for op in fine[fine["index"].isin(sent)].itertuples():
        own = ends.get(op.transactional_id, none).within(op.time, op.end)
        if any(row["made_by_proxy"] for row in own):
            continue
        compared += 1
        granted = {bool(row["committed"]) for row in own if row["answered_ns"] is not None}
        commits = op.intent == "commit"
        if sentence := _unproven_end(commits, granted, open_=len(own) > 0 and not granted):
            what = "committed" if commits else "aborted"
            sentence = f"The transaction of {op.transactional_id} was acknowledged as {what}, and {sentence}"
            found.append(WireFinding(op.transactional_id, int(op.end), sentence, int(op.index), int(op.index)))
    return compared, found


class _Ends:
    """The EndTxn requests of a transactional id that may have ended a transaction, in the order in which they were forwarded."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = sorted(rows, key=_forwarded)

    def within(self, began: int, ended: int) -> list[Row]:
        """Those that were sent in a time: one that was sent before, and answered in it, is about another transaction."""
        return self._rows[bisect_left(self._rows, began, key=_forwarded) : bisect_right(self._rows, ended, key=_forwarded)]


def _forwarded(row: Row) -> int:
    return int(row["forwarded_ns"])


def _unproven_end(commits: bool, granted: set[bool], open_: bool) -> str:
    """What is wrong with an acknowledged end, in words; empty: nothing. open_: an EndTxn is there whose answer nobody has."""
    if commits in granted:
        return ""
    if granted:
        return f"brokers granted EndTxn ({'abort' if commits else 'commit'}) in its time"
    if not commits:  # a client may drop what it has not begun at the coordinator
        return ""
    return "the only EndTxn in its time has no answer" if open_ else "no broker granted an EndTxn in its time"


def _unproven_records(run: RunView, log: WireLog) -> tuple[int, list[WireFinding]]:
    """How many acknowledged records were compared, and those at whose offset no broker granted a batch."""
    spans = _granted(log)
    overview = run.overview
    fine = overview.index[overview.txn | overview.send].astype(np.int64)
    sends = run.sends_of(fine)
    known = sends[(sends["offset"] != NONE) & (sends["ended"] != NONE) & sends["partition"].isin(list(spans))]
    wrong = []
    for partition, own in known.groupby("partition"):
        starts, stops = spans[str(partition)]
        at = np.searchsorted(starts, own["offset"].to_numpy(), side="right") - 1
        wrong.append(own[(at < 0) | (own["offset"].to_numpy() >= stops[np.maximum(at, 0)])])
    rows = pd.concat(wrong) if wrong else known
    found = [
        WireFinding(
            "",
            int(row.ended),
            f"A record was acknowledged at {row.partition}@{row.offset}, and no broker granted a batch with that offset",
            int(row.op),
            int(row.op),
        )
        for row in rows.itertuples()
    ]
    return len(known), found


def _granted(log: WireLog) -> dict[str, tuple[Ints, Ints]]:
    """Of each partition the first offsets of the granted batches, in order, and for each how far they reach."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    doubtful = set()
    for name, first, records, known in _answers(log):
        if known:
            spans[name].append((first, first + records))
        else:
            doubtful.add(name)
    made = {}
    for name, own in spans.items():
        if name not in doubtful:
            ordered = np.array(sorted(own), dtype=np.int64)
            made[name] = (ordered[:, 0], np.maximum.accumulate(ordered[:, 1]))
    return made


def _answers(log: WireLog) -> Iterator[tuple[str, int, int, bool]]:
    """Granted batches: partition, first offset, number of records, and whether the answer says the offset."""
    for row in log.rows:
        if row["api"] == "Produce" and row["answered_ns"] is not None:
            places = json.loads(row["answer_partitions"] or "[]")
            offsets = {(place.get("topic"), place["partition"]): place.get("base_offset") for place in places}
            for partition, batch, error in batches(row):
                name = f"{partition['topic']}-{partition['partition']}"
                first = offsets.get((partition["topic"], partition["partition"]))
                if row["made_by_proxy"] or error == GRANTED:
                    known = error == GRANTED and int(NONE if first is None else first) >= 0
                    yield name, int(first or 0), int(batch["records"]), known


@run_check(
    "unproven-ack",
    promise=ACKNOWLEDGED,
    rules=(UNLESS_REPORTED, Rule(FORBIDDEN, "a client reports as done what a broker acknowledged (KIP-98)")),
    evidence=Needs(
        {WIRE, SENDS, OUTCOMES},
        "what is missing of the record or of the history may have shown it",
        {WIRE},
        "what is missing of the record may hold the broker's answer",
    ),
    occasions=DECIDING,
    damages=(DISOWNED, UNWRITTEN),
    explain=explained_by_wire(unproven),
    across=True,
    needs=NO_PROMISES,
)
def unproven_ack(run: RunView) -> CheckResult:
    """A client reported something as acknowledged that no broker acknowledged on the wire.

    1. A transaction with records is reported as committed, and of its transactional id's EndTxn (commit) that were sent in its
       time no broker granted one: there was none, all were refused, or the one that was granted aborted. Or it is reported as
       aborted, and the EndTxn that was sent in its time, and granted, committed.
    2. A record is reported as acknowledged at an offset, and no broker granted a batch that holds this offset.

    Only where the record of all brokers is whole, and of clients whose requests are in it.

    compared: acknowledged transactions and records. One cause: the operation.
    """
    return found_on_wire(unproven)(run)
