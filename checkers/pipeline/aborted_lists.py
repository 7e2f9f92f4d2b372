"""Answers to Fetch by which a transaction is aborted whose commit was granted: readers drop its records (KIP-98).

They list it as aborted, or its marker behind its batches is an ABORT.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from fencepost.checkers.model.values import FOREVER
from fencepost.checkers.pipeline.wire_findings import WireFinding
from fencepost.checkers.pipeline.wire_log import Row, WireLog, batches
from fencepost.checkers.wire.states import NONE, SECOND_FROM, Api

COMMITTED_LEVEL = 1  # `isolationLevel` of a Fetch
BEFORE_ALL = -1
CAUSES = 1 << 40  # above the causes of the machine's findings
Writer = tuple[int, int]  # producer id and epoch
Place = tuple[str, int]  # a partition and an offset


@dataclass(frozen=True)
class _Written:
    """A batch that was acknowledged where it lies: who wrote it, when its Produce was forwarded and answered (ns)."""

    transactional_id: str
    writer: Writer
    partition: str
    sequence: int
    forwarded: int
    answered: int
    second: bool


def wrongly_listed(log: WireLog) -> tuple[int, list[WireFinding]]:
    """How many transactions that readers were told are aborted were compared, by their first batch, and the committed ones."""
    written, deciding = _batches(log), _deciding(log)
    compared, found = set[Place](), dict[Place, WireFinding]()
    for row in (row for row in log.rows if row["api"] == "Fetch" and row["answered_ns"] is not None and _is_committed_read(row)):
        for place, writer in _told(row):
            batch = written.get(place)
            if batch is None or batch.writer != writer or batch.answered >= row["answered_ns"] or place in found:
                continue
            compared.add(place)
            if deciding[writer].commits(batch):
                found[place] = _finding(row, place, batch)
    return len(compared), list(found.values())


def _finding(row: Row, place: Place, batch: _Written) -> WireFinding:
    sentence = (
        f"{row['node']} answered a Fetch of {place[0]} that the transaction of producer id {batch.writer[0]} with "
        f"{place[0]}@{place[1]} is aborted, and its coordinator had granted the commit: readers drop its records (KIP-98)"
    )
    return WireFinding(batch.transactional_id, row["answered_ns"], sentence, CAUSES + batch.writer[0])


def _is_committed_read(row: Row) -> bool:
    """True for a read_committed Fetch whose answer is the broker's."""
    settings = json.loads(row["request"] or "{}")
    return not row["made_by_proxy"] and settings.get("isolationLevel") == COMMITTED_LEVEL


def _told(row: Row) -> Iterator[tuple[Place, Writer]]:
    """The batches of an answer that are aborted by it."""
    for answer in json.loads(row["answer_partitions"] or "[]"):
        partition, heads = f"{answer.get('topic')}-{answer.get('partition')}", answer.get("batches") or ()
        aborted = {tuple(one) for one in answer.get("aborted") or ()}
        listed = (head for head in heads if (head.get("producer_id"), head.get("base_offset")) in aborted)
        for head in (*filter(_is_of_transaction, listed), *_before_aborts(heads)):
            yield (partition, head.get("base_offset")), (head.get("producer_id"), head.get("epoch"))


def _before_aborts(heads: Iterable[Row]) -> Iterator[Row]:
    """Batches behind which the next marker of their producer is an ABORT, where no offset is missing in between: compaction takes
    markers of commits."""
    open_, expected = defaultdict[Any, list[Row]](list), None
    for head in heads:
        if head.get("base_offset") != expected:
            open_.clear()
        expected = head.get("last_offset", BEFORE_ALL) + 1
        if _is_of_transaction(head):
            open_[head.get("producer_id")].append(head)
        elif head.get("control") in ("ABORT", "COMMIT"):
            before = open_.pop(head.get("producer_id"), ())
            yield from before if head["control"] == "ABORT" else ()


def _is_of_transaction(head: Row) -> bool:
    return bool(head.get("transactional")) and not head.get("control")


def _batches(log: WireLog) -> dict[Place, _Written]:
    """The batches of transactions that lie where one Produce was acknowledged, and that no other one sent."""
    made, sent = dict[Place, _Written](), defaultdict[Any, int](int)
    for row in (row for row in log.rows if row["api"] == "Produce"):
        answers = {(one.get("topic"), one["partition"]): one for one in json.loads(row["answer_partitions"] or "[]")}
        for asked, batch, error in batches(row):
            name, writer = f"{asked['topic']}-{asked['partition']}", (batch["producer_id"], batch["epoch"])
            sent[name, writer, batch.get("first_sequence")] += row["copies"] or 1
            offset = (answers.get((asked["topic"], asked["partition"])) or {}).get("base_offset", -1)
            if error == NONE and batch.get("transactional") and offset >= 0 and len(asked["batches"]) == 1:
                second = row["version"] >= SECOND_FROM[Api.PRODUCE]
                times = row["forwarded_ns"], row["answered_ns"]
                name_of_id = row["transactional_id"] or ""
                made[name, offset] = _Written(name_of_id, writer, name, batch["first_sequence"], *times, second)
    return {place: batch for place, batch in made.items() if sent[batch.partition, batch.writer, batch.sequence] == 1}


class _Deciding:
    """The requests about a producer id and epoch that add partitions, and that end its transactions, as they were forwarded."""

    def __init__(self) -> None:
        self.added: list[Row] = []
        self.ends: list[Row] = []

    @cached_property
    def _latest(self) -> list[int]:
        """When the last of the ends up to each was answered; FOREVER: one of them was not, and may have an effect at any time."""
        return list(accumulate((FOREVER if row["answered_ns"] is None else row["answered_ns"] for row in self.ends), max))

    def commits(self, batch: _Written) -> bool:
        """True if a batch was surely in a transaction whose commit was granted.

        The first EndTxn that was forwarded behind its acknowledgement commits; no other one may have had an effect in between;
        and its partition had been added to the transaction.
        """
        at = bisect_right(self.ends, batch.answered, key=_forwarded)
        since = self._latest[at - 1] if at else BEFORE_ALL
        if at == len(self.ends) or since >= batch.forwarded:
            return False
        end = self.ends[at]
        if not end["committed"] or end["error"] != NONE or end["made_by_proxy"] or end["copies"] not in (None, 1):
            return False
        few = self.added[
            bisect_right(self.added, since, key=_forwarded) : bisect_right(self.added, batch.forwarded, key=_forwarded)
        ]
        return batch.second or any(_adds(row, batch) for row in few)


def _deciding(log: WireLog) -> dict[Writer, _Deciding]:
    made: dict[Writer, _Deciding] = defaultdict(_Deciding)
    for row in log.rows:
        if row["api"] in (Api.PARTITIONS.value, Api.END.value):
            own = made[row["producer_id"], row["producer_epoch"]]
            (own.ends if row["api"] == Api.END.value else own.added).append(row)
    return made


def _forwarded(row: Row) -> int:
    return int(row["forwarded_ns"])


def _adds(row: Row, batch: _Written) -> bool:
    """True for a request by which the batch's partition was added before it was sent."""
    names = (f"{one['topic']}-{one['partition']}" for one in json.loads(row["partitions"] or "[]"))
    granted = row["answered_ns"] is not None and row["answered_ns"] <= batch.forwarded and row["error"] == NONE
    return granted and not row["made_by_proxy"] and batch.partition in names
