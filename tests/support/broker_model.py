"""A small model of Kafka's brokers: logs, coordinators of transactional ids, and a group; with flaws that may be planted.

Whatever takes time is a generator, which lets others go on at each `yield`. What brokers do by themselves (markers that are being
written) is in `Brokers.work`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TypeVar

from support.histories import UNCOMMITTED

T = TypeVar("T")
Steps = Generator[None, None, T]
Records = list[tuple[int, int]]  # offset and identity
OPEN, DECIDED, OVER = "open", "decided", "over"  # states of a transaction
PLAIN, COMMITTED, ABORTED, MARKER, HIDDEN = "plain", "committed", "aborted", "marker", "hidden"  # with `OPEN`: what became of a
# place of a log; HIDDEN: committed, and for readers as if it were aborted


class Flaw(Enum):
    """What the brokers do wrong now and then, and how often."""

    SKIPS_RECORDS = "a fetch leaves out a visible record", 0.1
    SHOWS_ABORTED = "a read_committed fetch returns an aborted record", 0.3
    PASSES_LSO = "a read_committed fetch goes on above the last stable offset", 0.2
    HIDES_COMMITTED = "no read_committed fetch returns a committed transaction of a partition", 0.3
    TURNS_MARKERS = "a marker is of the other kind than the decision", 0.15
    FORGETS_MARKERS = "a marker is not written", 0.1
    LOSES_RECORDS = "a record is acknowledged, and not appended", 0.05
    REPEATS_RECORDS = "a record is appended twice", 0.05
    ADMITS_ZOMBIES = "a producer whose epoch is old is not refused", 1.0
    PRAISES_ZOMBIES = "the commit of a producer whose epoch is old returns ok, and does nothing", 1.0
    LOSES_OFFSETS = "the offsets in a committed transaction are not committed", 0.3
    ADMITS_FORMER_OWNERS = "a member that has lost a partition may commit offsets of it", 1.0

    def __init__(self, meaning: str, chance: float) -> None:
        self.meaning, self.chance = meaning, chance


class Fenced(Exception):
    """A newer instance has the transactional id, or its coordinator has aborted the transaction."""


@dataclass
class Entry:
    """A place in a log.

    v: the record; None: a marker.
    owner: its transactional id; None: a record outside transactions.
    epoch: of its producer.
    committed, hides: of a marker.
    gone: compaction took it.
    """

    v: int | None
    owner: str | None = None
    epoch: int = 0
    committed: bool = False
    hides: bool = False
    gone: bool = False


@dataclass(eq=False)
class Transaction:
    """A transaction at its coordinator. offsets: input partition -> the group's offset, and in which order it was sent."""

    state: str = OPEN
    partitions: set[str] = field(default_factory=set)
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class TransactionalId:
    """What a coordinator knows of a transactional id."""

    epoch: int = -1
    transaction: Transaction | None = None

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.state == OPEN


class Brokers:
    """Partitions and coordinators. acted: how often the flaw has shown."""

    def __init__(self, rng: Random, partitions: Iterable[str], flaw: Flaw | None = None) -> None:
        self.rng, self.flaw, self.acted = rng, flaw, 0
        self.logs: dict[str, list[Entry]] = {partition: [] for partition in partitions}
        self.starts = dict.fromkeys(self.logs, 0)
        self.ids: dict[str, TransactionalId] = {}
        self.group = Group(rng)
        self.work: list[Steps[None]] = []

    def errs(self, flaw: Flaw) -> bool:
        """True if the brokers err so this time."""
        errs = self.flaw is flaw and self.rng.random() < flaw.chance
        self.acted += errs
        return errs

    # ---- logs
    def fates(self, partition: str) -> tuple[list[str], int]:
        """What became of each place of a log, and the last stable offset."""
        fates: list[str] = []
        undecided: dict[str, list[int]] = {}
        for at, entry in enumerate(self.logs[partition]):
            fates.append(MARKER if entry.v is None else OPEN if entry.owner else PLAIN)
            if entry.owner and entry.v is not None:
                undecided.setdefault(entry.owner, []).append(at)
            elif entry.owner:
                for place in undecided.pop(entry.owner, ()):
                    fates[place] = ABORTED if not entry.committed else HIDDEN if entry.hides else COMMITTED
        return fates, min((places[0] for places in undecided.values()), default=len(fates))

    def read(self, partition: str, position: int, isolation: str, most: int) -> tuple[Records, int]:
        """The next records of a reader, and its position behind them."""
        fates, stable = self.fates(partition)
        committed = isolation != UNCOMMITTED
        passed = committed and self.errs(Flaw.PASSES_LSO)
        end = len(fates) if passed or not committed else stable
        position, got = max(position, self.starts[partition]), []
        while position < end and len(got) < most:
            entry, fate = self.logs[partition][position], fates[position]
            shown = passed or not committed or fate in (PLAIN, COMMITTED)
            shown |= fate == ABORTED and self.errs(Flaw.SHOWS_ABORTED)
            if entry.v is not None and not entry.gone and shown and not self.errs(Flaw.SKIPS_RECORDS):
                got.append((position, entry.v))
            position += 1
        return got, position

    def append(self, name: str | None, epoch: int, partition: str, v: int) -> Steps[int]:
        """Append a record of a transactional id (None: outside transactions); its offset. Raises Fenced."""
        log = self.logs[partition]
        if name is None:
            log.append(Entry(v))
            return len(log) - 1
        transaction = yield from self.opened(name, epoch)
        transaction.partitions.add(partition)
        if self.errs(Flaw.LOSES_RECORDS):
            return len(log)
        log.append(Entry(v, name, epoch))
        offset = len(log) - 1
        if self.errs(Flaw.REPEATS_RECORDS):
            log.append(Entry(v, name, epoch))
        return offset

    def retain(self, partition: str) -> None:
        """Retention takes the beginning of a log, up to the last stable offset at most."""
        self.starts[partition] = max(self.starts[partition], self.rng.randint(0, self.fates(partition)[1]))

    def compact(self, partition: str) -> None:
        """Compaction takes records that are decided."""
        fates, stable = self.fates(partition)
        for at in range(stable):
            self.logs[partition][at].gone |= fates[at] != MARKER and self.rng.random() < 0.3

    # ---- coordinators
    def id(self, name: str) -> TransactionalId:
        return self.ids.setdefault(name, TransactionalId())

    def admits(self, name: str, epoch: int) -> bool:
        """True if a producer of this epoch may write."""
        return epoch == self.id(name).epoch or self.errs(Flaw.ADMITS_ZOMBIES)

    def initialise(self, name: str) -> Steps[int]:
        """Fence whoever had the id, end what it left open, wait for the markers; the new epoch."""
        known = self.id(name)
        known.epoch += 1
        epoch = known.epoch
        self.abort(name, epoch)
        while known.transaction is not None and known.transaction.state != OVER:
            yield
        return epoch

    def opened(self, name: str, epoch: int) -> Steps[Transaction]:
        """The open transaction of an id, a new one where the one before is over. Raises Fenced."""
        known = self.id(name)
        while True:
            if not self.admits(name, epoch):
                raise Fenced
            if known.transaction is None or known.transaction.state == OVER:
                known.transaction = Transaction()
            if known.is_open:
                return known.transaction
            yield

    def decide(self, name: str, commit: bool) -> None:
        """Decide the open transaction of an id; its markers follow one by one."""
        transaction = self.id(name).transaction
        assert transaction is not None
        transaction.state = DECIDED
        self.work.append(self._markers(name, self.id(name).epoch, transaction, commit))

    def abort(self, name: str, epoch: int) -> None:
        """Abort what a producer of this epoch has open, if anything."""
        if epoch == self.id(name).epoch and self.id(name).is_open:
            self.decide(name, False)

    def time_out(self, name: str) -> None:
        """The coordinator aborts a transaction that takes too long, and fences its producer."""
        known = self.id(name)
        if known.is_open:
            known.epoch += 1
            self.decide(name, False)

    def _markers(self, name: str, epoch: int, transaction: Transaction, commit: bool) -> Steps[None]:
        places = sorted(transaction.partitions)
        self.rng.shuffle(places)
        for place in places:
            yield from pause(self.rng, (0, 0, 1, 2, 6))
            if not self.errs(Flaw.FORGETS_MARKERS):
                hides = commit and self.errs(Flaw.HIDES_COMMITTED)
                self.logs[place].append(Entry(None, name, epoch, commit != self.errs(Flaw.TURNS_MARKERS), hides))
        yield from pause(self.rng, (0, 0, 1, 2, 6))
        for partition, (offset, order) in transaction.offsets.items():
            if commit and not self.errs(Flaw.LOSES_OFFSETS):
                self.group.commit(partition, offset, order)
        transaction.state = OVER


class Group:
    """A consumer group: a partition goes to another member once the one before has given it up (KIP-848)."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.offsets: dict[str, int] = {}
        self.wanted: dict[str, str] = {}  # partition -> the member that is to have it
        self._owner: dict[str, str] = {}
        self._members: dict[str, int] = {}  # member -> its process; of a static one the newest
        self._pending: dict[str, list[Transaction]] = {}
        self._order: dict[str, int] = {}
        self._sent = 0

    def join(self, member: str, process: int, partitions: Iterable[str]) -> None:
        """A process becomes a member. One that takes the place of a static member changes nothing else."""
        new = member not in self._members
        self._members[member] = process
        if new:
            self._assign(partitions)

    def leave(self, member: str, process: int, partitions: Iterable[str]) -> None:
        """A member is gone: it left, or its session ended."""
        if self.has(member, process):
            del self._members[member]
            self._owner = {partition: owner for partition, owner in self._owner.items() if owner != member}
            self._assign(partitions)

    def end_a_session(self, partitions: Iterable[str]) -> None:
        """The group gives up a member that lives."""
        if self._members:
            member = self._rng.choice(sorted(self._members))
            self.leave(member, self._members[member], partitions)

    def has(self, member: str, process: int) -> bool:
        return self._members.get(member) == process

    def replaced(self, member: str, process: int) -> bool:
        """True if another process has taken the place of a static member."""
        return self._members.get(member, process) != process

    def give_up(self, partition: str) -> None:
        self._owner.pop(partition, None)

    def take(self, member: str) -> list[str]:
        """Partitions that a member is to have, and nobody else has; it has them now."""
        free = [name for name, wanted in self.wanted.items() if wanted == member and self._owner.get(name, member) == member]
        self._owner.update(dict.fromkeys(free, member))
        return free

    def owns(self, member: str, process: int, partitions: Iterable[str]) -> bool:
        return self.has(member, process) and all(self._owner.get(partition) == member for partition in partitions)

    def add(self, transaction: Transaction, partition: str, offset: int) -> None:
        """The group's offset becomes part of a transaction."""
        self._sent += 1
        transaction.offsets[partition] = offset, self._sent
        self._pending.setdefault(partition, []).append(transaction)

    def commit(self, partition: str, offset: int, order: int) -> None:
        """Commit an offset, unless one that was sent later is."""
        if self._order.get(partition, -1) < order:
            self.offsets[partition], self._order[partition] = offset, order

    def fetch(self, partitions: Sequence[str]) -> Steps[dict[str, int | None]]:
        """The group's offsets, once no transaction has any of them open (KIP-447)."""
        while any(one.state != OVER for partition in partitions for one in self._pending.get(partition, ())):
            yield
        return {partition: self.offsets.get(partition) for partition in partitions}

    def _assign(self, partitions: Iterable[str]) -> None:
        names = sorted(self._members)
        self.wanted = {partition: self._rng.choice(names) for partition in partitions} if names else {}


def pause(rng: Random, lengths: Sequence[int]) -> Steps[None]:
    """Let others go on for some steps."""
    for _ in range(rng.choice(lengths)):
        yield
