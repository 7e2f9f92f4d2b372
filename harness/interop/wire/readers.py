"""Readers of a record: what each was given, and went on behind.

A reader is a connection of a consumer to a broker. It has read a batch when a later Fetch of the connection goes on behind it,
inside what the answer held or right at its end. What is not: an answer that the consumer dropped (it fetches from the same
offset again), the last answer of a connection, and an answer after which it fetches from somewhere else.

A read_committed consumer gets batches of aborted transactions too, and leaves them out by the list in the answer (KIP-98): so
does this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import Isolation
from fencepost.harness.interop.wire.operations import Operation, Process
from fencepost.harness.interop.wire.requests import Place, Seen

COMMITTED_LEVEL = 1  # `isolationLevel` of a Fetch
Head = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Given:
    """What an answer held of a partition.

    start: the offset from which it was fetched; None: not known.
    end: the offset behind it.
    heads: the batches that a consumer hands on.
    """

    poll: Poll
    start: int | None
    end: int
    heads: Sequence[Head]


@dataclass(slots=True, eq=False)
class Poll:
    """An answer, and the batches of it that were read."""

    time: int
    end: int
    read: list[tuple[str, Head]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Reader:
    """A connection.

    follows_starts: as of `Readers`.
    moves: when it began or went elsewhere (ns), with the partitions whose start it went to.
    """

    process: Process
    follows_starts: bool = True
    polls: list[Poll] = field(default_factory=list)
    moves: list[tuple[int, list[str]]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)  # from which the session fetches
    given: dict[str, Given] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)  # up to which it has read

    # -- requests --------------------------------------------------------------------------------
    def take(self, seen: Seen) -> None:
        """Take one more Fetch of the connection."""
        moved, starts = not self.moves, []
        for partition, place in seen.places.items():
            offset = place.get("offset", -1)
            if offset < 0:
                continue
            fresh = partition not in self.position
            went_on = self._go_on(partition, offset)
            if self.follows_starts and offset == 0 and (fresh or not went_on):
                starts.append(partition)
            moved |= not went_on and not fresh
            self.position[partition] = self.offsets[partition] = offset
        if (moved or starts) and seen.places:
            self.moves.append((seen.arrived, starts))
        if seen.answered is not None:
            self._answer(seen, seen.answered)

    def _go_on(self, partition: str, offset: int) -> bool:
        """Read what the last answer held, up to an offset; False: the reader went elsewhere."""
        given = self.given.pop(partition, None)
        before = self.position.get(partition)
        if given is None:
            return offset == before
        if given.start is not None and offset == given.start:
            return True
        first = given.start if given.start is not None else -1
        if not first < offset <= given.end:
            return False
        given.poll.read += [(partition, head) for head in given.heads if head["last_offset"] < offset]
        return True

    def _answer(self, seen: Seen, answered: int) -> None:
        poll = Poll(seen.arrived, answered)
        self.polls.append(poll)
        committed = self.process.isolation == Isolation.COMMITTED.value
        for partition, place in seen.answers.items():
            heads = [head for head in place.get("batches") or () if "last_offset" in head]
            if heads:
                self._pass_unrecorded(seen, partition, heads[0]["base_offset"])
                kept = list(handed_on(heads, place, committed))
                self.given[partition] = Given(poll, self.offsets.get(partition), heads[-1]["last_offset"] + 1, kept)

    def _pass_unrecorded(self, seen: Seen, partition: str, first: int) -> None:
        """Go on to the first batch of an answer that lies behind what was given before, though no Fetch said so.

        A Fetch without records in its answer, which moved the session on, is not in a record without `--fetches`.
        """
        given = self.given.get(partition)
        end = given.end if given is not None else self.offsets.get(partition, first) + 1
        if partition in seen.places or first < end:
            return
        if given is None or first > end or not self._go_on(partition, first):
            self.given.pop(partition, None)
            self.moves.append((seen.arrived, []))
        self.position[partition] = self.offsets[partition] = first


def handed_on(heads: Sequence[Head], place: Place, committed: bool) -> Iterator[Head]:
    """The batches of an answer that a consumer hands on: without control batches and, at read_committed, without those of
    transactions that the answer lists as aborted.
    """
    aborted = sorted(place.get("aborted") or (), key=lambda one: one[1]) if committed else []
    open_: set[int] = set()
    for head in heads:
        while aborted and aborted[0][1] <= head["last_offset"]:
            open_.add(aborted.pop(0)[0])
        producer = head.get("producer_id", -1)
        if control := head.get("control"):
            open_.discard(producer) if control == "ABORT" else None
        elif head.get("records") != 0 and not (head.get("transactional") and producer in open_):
            yield head


class Readers:
    """All readers of a record, as its requests come in order of time.

    follows_starts: a reader that fetches from offset 0 is taken to begin at the partition's start.
    heads: the batches that anybody was given, each with its partition.
    """

    def __init__(self, follows_starts: bool = True) -> None:
        self._follows_starts = follows_starts
        self.heads: list[tuple[str, Head]] = []
        self._readers: dict[tuple[str, int, str | None], Reader] = {}
        self._starts: dict[str, int] = {}
        self.shortened: set[str] = set()  # partitions of which brokers have deleted records

    def take(self, seen: Seen, reads: bool = True) -> None:
        """Take one more Fetch. reads: what its client reads is wanted."""
        self._look(seen)
        if not reads:
            return
        level = seen.settings.get("isolationLevel")
        isolation = None if level is None else (Isolation.COMMITTED if level == COMMITTED_LEVEL else Isolation.UNCOMMITTED).value
        key = (*seen.source, isolation)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = Reader(Process(seen.client_id, isolation=isolation), self._follows_starts)
        reader.take(seen)

    def _look(self, seen: Seen) -> None:
        """What answers say of records that brokers have deleted: a start that has moved, or batches that lack some."""
        for partition, place in seen.answers.items():
            start = place.get("log_start", -1)
            if start >= 0 and start > self._starts.setdefault(partition, start):
                self.shortened.add(partition)
            heads = [head for head in place.get("batches") or () if not head.get("control") and "last_offset" in head]
            self.heads += [(partition, head) for head in heads]
            if any(map(_lacks_records, heads)):
                self.shortened.add(partition)

    def all(self) -> Iterator[Reader]:
        """Those that have read something."""
        return (reader for reader in self._readers.values() if any(poll.read for poll in reader.polls))


def _lacks_records(head: Head) -> bool:
    """True for a batch of which compaction has removed some records."""
    count = head.get("records")
    return count is not None and bool(count < head["last_offset"] - head["base_offset"] + 1)


def moves_of(reader: Reader) -> Iterator[Operation]:
    """The moves of a reader as operations."""
    for time, starts in reader.moves:
        if starts:
            yield Operation("assign", time, end=time, detail={"partitions": starts, "seek_to_beginning": True})
        else:
            yield Operation("seek", time, end=time, detail={"positions": {}})
