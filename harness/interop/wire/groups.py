"""Groups of a record: which offsets members were told, and who commits outside of transactions.

An answer to OffsetFetch tells the group's offset of each partition: an operation `committed`. What a group had at the end of the
record is the last such answer that had to wait for open transactions (`require_stable`, KIP-447), where nobody commits behind it,
by the broker that took the last commit: another one may be a coordinator of before.

What cannot be told apart from somebody else's doing is left out: offsets below all that the record has commits of, which may be
from before it; and partitions to which somebody commits outside of transactions, or by a request that the proxy has altered, or
of which such an offset from before is told after a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.harness.interop.wire.operations import Operation, Process
from fencepost.harness.interop.wire.requests import NONE, Place, Seen

Key = tuple[str, str]  # group and partition
Owner = tuple[str, int]  # a member of a group, and its generation or epoch
NO_OFFSET = -1
REFUSED = frozenset(
    {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "STALE_MEMBER_EPOCH", "FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS"}
)
"""Errors of an OffsetCommit that committed nothing."""
REFUSED_IN_TRANSACTION = REFUSED | {
    *("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE", "INVALID_GROUP_ID"),
    *("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    *("OFFSET_METADATA_TOO_LARGE", "UNKNOWN_TOPIC_OR_PARTITION"),
}
"""Errors of a TxnOffsetCommit that added nothing. Any other one may have come too late."""


@dataclass(slots=True, eq=False)
class Look:
    """An answer to OffsetFetch.

    member: the member that asked; its connection, where it names none.
    node: the broker that answered.
    offsets: what was told; None: the group has none.
    stable: it had to wait for transactions that were open.
    """

    member: tuple[str, ...]
    client: str
    node: str
    time: int
    end: int
    offsets: Mapping[Key, int | None]
    stable: bool


@dataclass(slots=True)
class Groups:
    """All groups of a record, as its requests come in order of time.

    committed: the offsets that transactions were to commit, of whatever outcome, and when the first request for each came (ns).
    first: when the first transaction had committed an offset (ns).
    before: answers and keys where what was told may be from before the record, though a transaction was to commit it.
    latest: when the last of them came (ns), and the broker that took it; empty: nobody knows whether one did.
    outside: where somebody commits who is no transaction, or may.
    """

    looks: list[Look] = field(default_factory=list)
    committed: dict[Key, dict[int, int]] = field(default_factory=dict)
    first: Mapping[Key, int] = field(default_factory=dict)
    before: set[tuple[int, Key]] = field(default_factory=set)
    latest: dict[Key, tuple[int, str]] = field(default_factory=dict)
    outside: set[Key] = field(default_factory=set)

    def take(self, seen: Seen) -> None:
        """Take one more request."""
        match seen.api:
            case "OffsetFetch" if seen.answered is not None:
                self._look(seen, seen.answered)
            case "TxnOffsetCommit":
                self._commit(seen)
            case "OffsetCommit":
                self.outside |= {key for key, place in keyed(seen, seen.places) if not _is_refused(seen, key[1])}

    def _look(self, seen: Seen, answered: int) -> None:
        told = {key: told_offset(place) for key, place in keyed(seen, seen.answers) if place.get("error", NONE) == NONE}
        name = next((asked.get("memberId") for asked in seen.settings.get("groups") or ()), None)
        member = (seen.group or "", name) if name else (seen.group or "", *map(str, seen.source))
        if told:
            stable = bool(seen.settings.get("requireStable"))
            self.looks.append(Look(member, seen.client_id, seen.source[0], seen.arrived, answered, told, stable))

    def _commit(self, seen: Seen) -> None:
        for key, place in keyed(seen, seen.places):
            if seen.altered:
                self.outside.add(key)
            elif "offset" in place:
                self.committed.setdefault(key, {}).setdefault(place["offset"], seen.arrived)
                granted = seen.answered is not None and seen.answers.get(key[1], {}).get("error", NONE) == NONE
                self.latest[key] = (seen.arrived, seen.source[0] if granted else "")

    def leave_out(self, first: Mapping[Key, int], begins: bool = False) -> None:
        """Leave out where an offset from before the record is told after a transaction had committed one.

        begins: the groups have no offsets from before the record.
        first: when the first transaction had (ns).
        """
        self.first = first
        self.before = set() if begins else set(self._told_before())
        for look in self.looks:
            self.outside |= {
                key
                for key, offset in look.offsets.items()
                if key in first and look.time > first[key] and self._is_older(key, offset)
            }

    def _is_older(self, key: Key, offset: int | None) -> bool:
        """True for an offset below all that are committed in the record."""
        return offset is not None and all(offset < commit for commit in self.committed.get(key, ()))

    def _told_before(self) -> Iterator[tuple[int, Key]]:
        """Where a member was told what a transaction was to commit, and what the group may have had before the record.

        So it is where no transaction of the record had committed by then, and nobody had been told anything else.
        """
        told = dict[Key, int | None]()
        for look in self.looks:
            for key, offset in look.offsets.items():
                asked = None if offset is None else self.committed.get(key, {}).get(offset)
                alike = told.setdefault(key, offset) == offset and asked is not None and asked <= look.end
                if alike and look.time <= self.first.get(key, look.time):
                    yield id(look), key

    def told_of(self, open_: Mapping[Key, set[int]]) -> set[Key]:
        """Where a member was told an offset of transactions of which the record has no end. open_: their offsets."""
        return {key for look in self.looks for key, offset in look.offsets.items() if offset in open_.get(key, ())}

    # -- operations ------------------------------------------------------------------------------
    @property
    def known(self) -> bool:
        """True if a group's offsets can be compared."""
        return any(key not in self.outside for key in self.committed)

    def names(self) -> dict[Key, str]:
        """What stands for a group's offset of a partition: the partition; of several groups also the group.

        Those that are not compared have no name.
        """
        groups: dict[str, set[str]] = {}
        for group, partition in (*self.committed, *(key for look in self.looks for key in look.offsets)):
            groups.setdefault(partition, set()).add(group)
        return {
            (group, partition): partition if len(some) == 1 else f"{group}/{partition}"
            for partition, some in groups.items()
            for group in some
            if (group, partition) not in self.outside
        }

    def processes(self) -> Iterator[Process]:
        """The members that were told something, with what they were told."""
        names, made = self.names(), dict[tuple[str, ...], Process]()
        for look in self.looks:
            if offsets := self._compared(look, names):
                process = made.setdefault(look.member, Process(look.client))
                process.operations.append(Operation("committed", look.time, end=look.end, detail={"offsets": offsets}))
        yield from made.values()

    def _compared(self, look: Look, names: Mapping[Key, str]) -> dict[str, int | None]:
        """What was told, but for offsets that may be from before the record."""
        return {
            names[key]: offset
            for key, offset in look.offsets.items()
            if key in names and not self._is_older(key, offset) and (id(look), key) not in self.before
        }

    def ends(self, undecided: Iterable[Key]) -> Iterator[Operation]:
        """What each group had at the end, as far as that was told.

        undecided: where a transaction was to commit an offset of whose outcome nobody knows.
        """
        names, last, left_out = self.names(), dict[Key, tuple[Look, int | None]](), set(undecided)
        for look in self.looks:
            for key, offset in look.offsets.items():
                since, node = self.latest.get(key, (look.time, ""))
                if look.stable and look.time > since and look.node == node and key in names and key not in left_out:
                    last[key] = (look, offset)
        for group in sorted({group for group, _ in last}):
            mine = {names[key]: told for key, told in last.items() if key[0] == group}
            offsets = {name: offset for name, (_, offset) in mine.items()}
            end = max(look.end for look, _ in mine.values())
            yield Operation("group-offsets", end, end=end, detail={"group": group, "offsets": offsets})


def keyed(seen: Seen, places: Mapping[str, Place]) -> Iterator[tuple[Key, Place]]:
    """Places with their group; a request about several says it of each."""
    for partition, place in places.items():
        if group := place.get("group") or seen.group:
            yield (group, partition), place


def told_offset(place: Place) -> int | None:
    offset = place.get("offset", NO_OFFSET)
    return offset if offset >= 0 else None


def _is_refused(seen: Seen, partition: str) -> bool:
    return seen.answered is not None and seen.answers.get(partition, {}).get("error") in REFUSED


def owner_of(seen: Seen) -> Owner | None:
    """In whose name a TxnOffsetCommit is (KIP-447); None: it is older than version 3, or does not say it."""
    member, generation = seen.settings.get("memberId"), seen.settings.get("generationId", -1)
    return (member, generation) if member and generation >= 0 else None


def is_assigned_anew(key: Key, owners: Mapping[Key, Owner | None], before: Mapping[Key, Owner | None]) -> bool:
    """True if a partition may have been assigned anew since the offset before was committed.

    It was not if both were in the name of one member in one generation, which had the partition throughout.
    """
    owner = owners.get(key)
    return key in before and (owner is None or owner != before[key])
