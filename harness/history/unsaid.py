"""What a history of others leaves unsaid (docs/foreign-histories.md): gaps, instead of assumptions that would accuse somebody.

A run of ours has a manifest, and its workers number their operations without a hole. Of another history nobody attests anything:
what it does not say is unknown. All that is decided here is decided by its rows alone, whichever format they came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.harness.api import Isolation, Outcome, record_ids
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.history import UNREADABLE
from fencepost.harness.api.words import and_more, form, plural
from fencepost.harness.history.contradictions import WRITES, Contents, among, contradictions, flags, numbers

COLUMNS = ("process", "op", "role", "isolation", "final", "f", "type", "intent", "time", "end", "decided", "detail")
LEVEL_REMEDY = "`--contract isolation=read_committed` says it"
_FINALS = (Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED)
_READS = (Evidence.POLLS, Evidence.POSITIONS)
FUNCTIONS = frozenset(
    (
        *("txn", "send", "poll", "subscribe", "assign", "seek", "committed", "crash", "initialise", "misuse", "final-read"),
        *("settle", "rest", "read-log", "read-store", "instance", "drain", "group-offsets", "list-transactions", UNREADABLE),
    )
)
"""Functions of operations that docs/history.md knows."""
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Unsaid:
    """What rows leave unsaid.

    final: the rows of final readers, also of those that are only known by their `final-read`.
    decided: the first calls of commit, with the earliest possible moment where they are not known; -1: never, or no transaction.
    gaps: what follows.
    """

    final: Bools
    decided: Ints
    gaps: tuple[Gap, ...]


def unsaid(table: pa.Table, file: str, senders: Ints, contents: Contents, unchained: Bools | None = None) -> Unsaid:
    """What the operations of a history leave unsaid, or contradict.

    table: `COLUMNS` of its rows.
    senders: operations (`record_ids.operation_key`) that sent what was read, and that the history does not have.
    contents: what the column `mops` of these rows says.
    unchained: rows that commit offsets of a group, and name no record that they processed; None: none.
    """
    rows = _Rows(table)
    gaps = [rows.levels(file, contents.polling), rows.results(file), rows.decisions(file), rows.order(file), _sent(senders, file)]
    gaps += [
        *rows.contents(file, contents.blank),
        *rows.places(file, contents.placeless),
        rows.intents(file),
        rows.functions(file),
        rows.chains(file, unchained),
        *rows.numbers(file),
    ]
    gaps += [rows.reach(file, contents.beyond(table)), *contradictions(table, contents, file)]
    return Unsaid(rows.final, rows.earliest, tuple(gap for gap in gaps if gap is not None))


def unknown_senders(mops: Iterable[pa.Array], keys: Ints) -> Ints:
    """The operations that sent what was read, and that are not among the history's own (`keys`).

    mops: the column `mops`, in parts. A record of nobody (a negative identity) has no sender.
    """
    own, found_keys = np.unique(keys), [np.empty(0, dtype=np.int64)]
    for part in mops:
        flat = part.flatten()
        read = pc.and_(pc.equal(flat.field("kind"), 1), pc.greater_equal(flat.field("v"), 0))
        identities = flat.field("v").filter(read).to_numpy(zero_copy_only=False).astype(np.int64)
        found_keys.append(np.setdiff1d(record_ids.operation_key_of(identities), own))
    return np.unique(np.concatenate(found_keys))


def _sent(senders: Ints, file: str) -> Gap | None:
    """Records were read whose sender's operation is not in the history: it may have sent them."""
    if not len(senders):
        return None
    process, op = int(senders[0]) >> record_ids.MAX_OP.bit_length(), int(senders[0]) & record_ids.MAX_OP
    more = and_more(len(senders) - 1, ", and by ")
    why = f"records were read that were sent by operation {op} of process {process}{more}, which the history does not have"
    return Gap(file=file, why=why, kind=GapKind.MISSING, lines=len(senders), evidence=(Evidence.SENDS, Evidence.OUTCOMES))


class _Rows:
    """Rows as columns."""

    def __init__(self, table: pa.Table) -> None:
        self._process, self._op = (numbers(table[name]) for name in ("process", "op"))
        self._time, self._end = (numbers(table[name]) for name in ("time", "end"))
        self._f = table["f"]
        self._isolation = table["isolation"]
        self._polls = among(self._f, ("poll", "txn"))
        self._writes = among(self._f, ("txn", "send"))
        self._client = self._process >= 0
        final = flags(table["final"]) | among(table["role"], ("final",))
        self.final = (final | np.isin(self._process, self._process[among(self._f, ("final-read",))])) & self._client
        self._unintended = (
            among(self._f, ("txn",)) & among(table["type"], (Outcome.OK.value,)) & flags(pc.is_null(table["intent"]))
        )
        self._unheard = flags(pc.match_substring(table["detail"], '"unheard"'))
        self._undecided = self._uncalled(table)
        self.earliest = np.where(self._undecided, self._time, numbers(table["decided"]))

    def _uncalled(self, table: pa.Table) -> Bools:
        """Completed transactions of unknown outcome, to be committed, of which it is not known whether commit was called."""
        done = among(table["type"], (Outcome.INFO.value,)) & (self._end >= 0)
        aborting = among(table["intent"], ("abort",))
        return among(self._f, ("txn",)) & done & ~aborting & (numbers(table["decided"]) < 0)

    # -- gaps ------------------------------------------------------------------------------------
    def levels(self, file: str, polling: Bools) -> Gap | None:
        """Readers of no isolation level of their own. polling: rows with a polled record."""
        reads = among(self._f, ("poll", "final-read")) | polling
        which = self._client & reads & flags(pc.is_null(self._isolation))
        if not which.any():
            return None
        why = f"the isolation level of {_named(self._process[which])} is not known ({LEVEL_REMEDY})"
        return Gap(file=file, why=why, kind=GapKind.MISSING, evidence=(Evidence.LEVELS,))

    def results(self, file: str) -> Gap | None:
        """Polls of final readers of which it is not known what they returned."""
        which = self.final & self._polls & ((self._end < 0) | self._unheard)
        if not which.any():
            return None
        levels = set(self._isolation.filter(pa.array(which)).to_pylist())
        kinds = {Isolation.COMMITTED.value: _FINALS[:1], Isolation.UNCOMMITTED.value: _FINALS[1:]}
        evidence = tuple(kind for kind in _FINALS if any(kind in kinds.get(level, _FINALS) for level in levels))
        why = f"{plural(int(which.sum()), 'poll')} of the final {_named(self._process[which])} without a known result"
        return Gap(file=file, why=why, kind=GapKind.MISSING, evidence=evidence)

    def decisions(self, file: str) -> Gap | None:
        """Transactions of which it is not known when their commit was called."""
        count = int(self._undecided.sum())
        why = f"{plural(count, 'transaction')} of unknown outcome without the first call of commit (`decided`)"
        return Gap(file=file, why=why, kind=GapKind.MISSING, evidence=(Evidence.DECISIONS,)) if count else None

    def functions(self, file: str) -> Gap | None:
        """Operations of functions that nobody knows: where the process's consumer stands after them is not known."""
        strange = sorted({str(f) for f in pc.unique(self._f.filter(pa.array(self._client))).to_pylist()} - FUNCTIONS)
        if not strange:
            return None
        what = f"`{strange[0]}`{and_more(len(strange) - 1)} {form(len(strange), 'is no function', 'are no functions')}"
        why = f"{what} that docs/history.md knows: what its operations did is not known"
        return _missing(file, why, None, (Evidence.POSITIONS,))

    def intents(self, file: str) -> Gap | None:
        """Transactions that ended ok, of which it is not known whether they were to commit or to abort."""
        count = int(self._unintended.sum())
        why = f"{plural(count, 'transaction')} that ended ok without `intent`: whether to commit or to abort is not known"
        return _missing(file, why, None, (Evidence.OUTCOMES,)) if count else None

    def order(self, file: str) -> Gap | None:
        """Operations that began before the one before them, or ended before they began: a clock was set back, or numbers lie."""
        order = np.lexsort((self._op, self._process))
        process, time = self._process[order], self._time[order]
        back = np.flatnonzero((process[1:] == process[:-1]) & (process[1:] >= 0) & (time[1:] < time[:-1])) + 1
        before = order[back] if len(back) else np.flatnonzero((self._end >= 0) & (self._end < self._time))
        if not len(before):
            return None
        what = "began before the one before it" if len(back) else "ended before it began"
        first = f"operation {self._op[before[0]]} of process {self._process[before[0]]}"
        why = f"{first}{and_more(len(before) - 1)} {what}, by its time: a clock was set back, or numbers are not in order"
        return Gap(file=file, why=why, kind=GapKind.UNRELIABLE, evidence=WRITES)

    def contents(self, file: str, blank: Bools) -> Iterator[Gap]:
        """Operations that say nothing of what they sent or polled."""
        which = blank & self._client & (self._polls | self._writes)
        for process in np.unique(self._process[which]):
            mine = which & (self._process == process)
            count = plural(int(mine.sum()), "operation says", "operations say")
            yield _missing(file, f"{count} nothing of what process {process} sent and polled", None, self._held(mine))

    def places(self, file: str, placeless: Bools) -> Iterator[Gap]:
        """Operations that polled records, and do not say where these lie."""
        which = placeless & self._client
        for process in np.unique(self._process[which]):
            mine = which & (self._process == process)
            count = plural(int(mine.sum()), "operation does", "operations do")
            yield _missing(file, f"{count} not say where records lie that process {process} polled", None, self._held(mine))

    def reach(self, file: str, beyond: Bools) -> Gap | None:
        """Final reads that say that they read less than their process polled: where they began and ended is not known."""
        if not beyond.any():
            return None
        why = f"the final {_named(self._process[beyond])} read less than it polled, by its own final read"
        return _missing(file, why, None, _FINALS)

    def chains(self, file: str, unchained: Bools | None) -> Gap | None:
        """Transactions that commit offsets of a group, and do not say which records they processed."""
        if unchained is None or not unchained.any():
            return None
        what = plural(int(unchained.sum()), "operation commits", "operations commit")
        return _missing(file, f"{what} offsets and names no record that was processed", None, (Evidence.SENDS, Evidence.OUTCOMES))

    def numbers(self, file: str) -> Iterator[Gap]:
        """Operations that are missing by the numbers of the others; where all processes share a counter, among all of them."""
        numbers, process = self._op[self._client], self._process[self._client]
        if not len(numbers):
            return
        base = min(int(numbers.min()), 1)
        holes = {int(number): _holes(numbers[process == number], base) for number in np.unique(process)}
        shared = len(holes) > 1 and len(np.unique(numbers)) == len(numbers)
        if shared and any(holes.values()):
            holes = {}
            if missing := _holes(numbers, base):
                yield _missing(file, f"{_are_missing(plural(missing, 'operation'), missing)}", missing, WRITES)
        for number, missing in holes.items():
            if missing:
                which = f"{plural(missing, 'operation')} of process {number}"
                yield _missing(file, _are_missing(which, missing), missing, self._held(self._process == number))

    def _held(self, mine: Bools) -> tuple[Evidence, ...]:
        """Evidence that operations of a process may hold."""
        if self.final[mine].any():
            return _FINALS
        return WRITES if self._writes[mine].any() else _READS


def _missing(file: str, why: str, lines: int | None, evidence: tuple[Evidence, ...]) -> Gap:
    return Gap(file=file, why=why, kind=GapKind.MISSING, lines=lines, evidence=evidence)


def _are_missing(what: str, count: int) -> str:
    return f"{what} {'is' if count == 1 else 'are'} missing, by the numbers of the others"


def _holes(numbers: Ints, base: int) -> int:
    """How many numbers are missing among some that should begin with `base`."""
    known = np.unique(numbers)
    return int(known[-1]) - base + 1 - len(known)


def _named(processes: Ints) -> str:
    """Some processes in words."""
    numbers = np.unique(processes)
    return f"process {numbers[0]}{and_more(len(numbers) - 1)}" if len(numbers) < 4 else f"{len(numbers)} processes"
