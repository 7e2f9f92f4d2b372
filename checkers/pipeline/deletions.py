"""Topics of a source connector that were deleted and created again: which records and offsets are surely of which incarnation.

A topic that is created again has new logs, whose offsets begin at 0. Of the former ones nothing is left but what readers got. So
the leaders' logs are of the last incarnation alone, and what was committed with them has to be told apart by time: a transaction
surely began when every broker knew the new topic, if the marker of the producer's transaction before, in the same partition, was
written then. Times of markers are brokers'; `ConnectLog.slack_ms` is by how much they may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from fencepost.checkers.model.findings import FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.connect_log import CLOCKS, ConnectLog
from fencepost.checkers.pipeline.source_log import COMMITTED, PLAIN, SourceLog, unread_logs
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.deletions import Deletion

RECORDS, OFFSETS = "records", "offsets"  # as in the contract's `topic_deletions`
NOT_KNOWN = "which topics faults deleted is not known"
ALTERED = "topics were deleted, and offsets altered or reset on request: which records came before is not known"
OUTSIDE = "stored offsets lie outside transactions, so it is not known which records were written before a topic was deleted"
NEVER = math.inf


class TopicDeletions:
    """The deletions of a connector's topics. Made once for all checks of a run (`RunView.shared`).

    Empty where the contract names none: then nothing is permitted.
    """

    def __init__(self, run: RunView) -> None:
        self._run, self._log = run, run.shared(SourceLog)
        self._named = [name for name in run.contract["topic_deletions"].split(",") if name]

    @cached_property
    def _known(self) -> Sequence[Deletion]:
        return (self._run.deletions or ()) if self._named else ()

    @cached_property
    def _slack_ms(self) -> int:
        return self._run.shared(ConnectLog).slack_ms or 0

    @cached_property
    def of_records(self) -> Sequence[Deletion]:
        """Deletions of target topics."""
        topics = {_topic(name) for name in self._log.targets}
        return [deletion for deletion in self._known if deletion.topic in topics] if RECORDS in self._named else []

    @cached_property
    def of_offsets(self) -> Sequence[Deletion]:
        """Deletions of topics with stored offsets that tasks read."""
        if not self._known or OFFSETS not in self._named:
            return []
        topics, targets = set(self._offsets_topic.values()), {_topic(name) for name in self._log.targets}
        return [
            deletion for deletion in self._known if deletion.topic in topics or (not topics and deletion.topic not in targets)
        ]

    @cached_property
    def _offsets_topic(self) -> dict[str, str]:
        """Source -> the topic with its stored offsets."""
        known = self._log.offsets.drop_duplicates("name", keep="last")
        return dict(zip(known["name"], known["partition"].map(_topic), strict=True))

    def _of(self, name: str) -> Sequence[Deletion]:
        """The deletions of a source's offsets; of one that has none stored, all."""
        return [deletion for deletion in self.of_offsets if self._offsets_topic.get(name, deletion.topic) == deletion.topic]

    @cached_property
    def there_are(self) -> bool:
        """True if a topic was deleted, or may have been."""
        return bool(self._named) and (self._run.deletions is None or bool(self._known))

    # ---- whether incarnations can be told apart --------------------------------------------------
    def unclear(self, kind: str) -> str:
        """The reason why nothing can be said where topics of a kind (RECORDS, OFFSETS) were deleted; empty when it can, or none
        was.
        """
        if kind not in self._named:
            return ""
        if self._run.deletions is None:
            return NOT_KNOWN
        deleted = self.of_records if kind == RECORDS else self.of_offsets
        return self._indistinct(deleted) if deleted else ""

    def _indistinct(self, deleted: Sequence[Deletion]) -> str:
        if self._run.shared(ConnectLog).slack_ms is None:
            return CLOCKS
        if self._log.altered:
            return ALTERED
        if unseen := [deletion.topic for deletion in deleted if deletion.known_ms is None]:
            return f"when every broker knew {unseen[0]}, which was deleted and created again, is not known"
        outside = (self._log.offsets["ended"] == PLAIN).any()
        return unread_logs(self._run) or self._log.opaque or (OUTSIDE if outside else "")

    # ---- records ---------------------------------------------------------------------------------
    @cached_property
    def floors(self) -> dict[str, float]:
        """Source whose target topic was deleted -> the highest position that may have lain in it.

        It is the first offset that was committed when every broker knew the new topic: what is above was sent in later
        transactions. NEVER: there is no such offset.
        """
        highest: dict[str, float] = {}
        for topic in dict.fromkeys(deletion.topic for deletion in self.of_records):
            rows = self._log.visible["partition"].map(_topic) == topic
            names = set(self._log.visible["name"][rows])
            highest |= dict.fromkeys(names, NEVER) | self._first_after(
                names, _known_again(self.of_records, topic) + self._slack_ms
            )
        return highest

    def _first_after(self, names: Iterable[str], since_ms: float) -> dict[str, float]:
        return dict(self._floor_offsets(names, since_ms).set_index("name")["number"].astype(float))

    def _floor_offsets(self, names: Iterable[str], since_ms: float) -> pd.DataFrame:
        """The first stored offset of each source whose transaction was committed after a time."""
        offsets = self._log.offsets
        late = offsets[(offsets["ended"] == COMMITTED) & (offsets["ended_ms"] > since_ms) & (offsets["number"] >= 0)]
        return late[late["name"].isin(set(names))].sort_values(["partition", "offset"]).drop_duplicates("name")

    @cached_property
    def marks(self) -> pd.DataFrame:
        """Stored offsets of sources whose target topic was deleted: the first one of all, and the one of `floors`."""
        offsets = self._log.offsets[self._log.offsets["name"].isin(self.floors) & (self._log.offsets["number"] >= 0)]
        first = offsets.sort_values("number").drop_duplicates("name")
        floor = offsets[offsets["number"] == offsets["name"].map(self.floors)].drop_duplicates("name")
        return pd.concat([first, floor]).drop_duplicates(["name", "number"])

    def may_have_lain_there(self, name: str, number: int) -> bool:
        """True if a position may have lain in a deleted target topic."""
        return number <= self.floors.get(name, NONE)

    # ---- offsets ---------------------------------------------------------------------------------
    def _restarts(self, names: pd.Series) -> pd.Series:
        """The number of times that a task may have begun again for want of a source's offsets: once for each deletion."""
        return names.map({name: len(self._of(name)) for name in names.unique()}).astype(np.int64)

    def incarnations(self, records: pd.DataFrame) -> pd.Series:
        """The incarnation (0, 1, ...) of the topic with its offsets, for each record, in which its whole committed
        transaction surely was; NONE: it is not known.
        """
        numbers = pd.Series(NONE, index=records.index, dtype=np.int64)
        for name, rows in records[records["ended"] == COMMITTED].groupby("name"):
            began = [deletion.began_ms - self._slack_ms for deletion in self._of(name)]
            known = [NEVER if deletion.known_ms is None else deletion.known_ms + self._slack_ms for deletion in self._of(name)]
            after = np.searchsorted(np.maximum.accumulate(np.asarray(known, dtype=float)), rows["before_ms"], side="left")
            until = np.searchsorted(np.asarray(began, dtype=float), rows["ended_ms"], side="right")
            numbers[rows.index] = np.where(after == until, after, NONE)
        return numbers

    @cached_property
    def judged_offsets(self) -> pd.Series:
        """True for each record of the leaders' logs whose stored offset surely lies in the present offsets topic."""
        records = self._log.records
        every = pd.Series(True, index=records.index)
        return self.incarnations(records) == self._restarts(records["name"]) if self.of_offsets else every

    @cached_property
    def repeated(self) -> pd.DataFrame:
        """The visible records whose position is there more than once, with whether the deletions do not explain it: `certain`.

        After each deletion of its offsets topic a task may begin again. So a position may be there once for each incarnation of
        the topic; two in one incarnation, or more than there were incarnations, are not explained.
        """
        visible, places = self._log.visible, ["partition", "offset"]
        copies = visible[visible.duplicated(["part", "sequence"], keep=False)]
        if not self.of_offsets or copies.empty:
            return copies.assign(certain=True)
        records = self._log.records
        known = records[places].assign(incarnation=self.incarnations(records))
        copies = copies.merge(known, on=places, how="left").fillna({"incarnation": NONE})
        same = copies.duplicated(["part", "sequence", "incarnation"], keep=False) & (copies["incarnation"] != NONE)
        groups = [copies["part"], copies["sequence"]]
        many = copies.groupby(groups)["offset"].transform("size") > 1 + self._restarts(copies["name"])
        return copies.assign(certain=same.groupby(groups).transform("any") | many)

    @cached_property
    def _certain(self) -> set[tuple[str, int]]:
        certain = self.repeated[self.repeated["certain"]]
        return set(zip(certain["partition"], certain["offset"], strict=True))

    # ---- findings ----------------------------------------------------------------------------------
    def explains(self, anomaly: str, rows: Sequence[FindingRecord]) -> bool:
        """True if a deletion explains a finding of a check of sources."""
        if anomaly == "source-duplicate":
            return not any((row.partition, row.offset) in self._certain for row in rows)
        known = [self._log.at(row) for row in rows if anomaly == "source-loss" or row.role == "read"]
        return all(self.may_have_lain_there(entry.name, entry.number) for entry in known)


def _known_again(deleted: Sequence[Deletion], topic: str) -> float:
    """The time from which on every broker knew the topic after its last deletion (ms)."""
    last = [deletion for deletion in deleted if deletion.topic == topic][-1]
    return NEVER if last.known_ms is None else last.known_ms


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]
