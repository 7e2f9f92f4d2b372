"""What a run waits for between healing and its final read, and what it records of it: replicas in sync, last stable offsets
at their high watermarks, no transaction open, and the offsets that the groups have committed.

Each wait has a bound, and what is not reached by then is recorded and said; none of it ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fencepost.harness.api import Cluster, ClusterError, Isolation, Outcome, Role
from fencepost.harness.api.clocks_ahead import clocks_ahead
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.events import PerformerEvent, note_event
from fencepost.harness.api.logs import of_second
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.clock_jumps import ClockJumps
from fencepost.harness.perform.partition_offsets import PartitionOffsets
from fencepost.harness.perform.plan_roles import group_of, partitions_of, topics_of
from fencepost.harness.perform.program_part import ProgramPart
from fencepost.harness.perform.recovery_wait import Standing
from fencepost.harness.perform.transaction_looks import TransactionLooks

REPLICAS_S = 60.0  # for every replica to be in sync again
ABORT_MARGIN_S = 10.0  # beyond the transaction timeout: the coordinator looks for expired transactions once a second
LOOK_MARGIN_S = 8.0  # beyond that: a transaction that hangs must be seen to do so when the cluster is at rest
CLOCKS_S = 120.0  # so long at most is waited for what clocks that were ahead have stamped
LOOKS_S = 14.0  # and for so long after settling, for markers that are not written
UNKNOWN_END = 2**62  # of a partition whose end is unknown: no reader can reach it, so its final read is never called complete
TRANSACTION_TIMEOUT_MS = 60_000  # Kafka's default


@dataclass
class Settling:
    """The waiting of one run.

    most_s: how long last stable offsets may take; 0: as the longest transaction timeout demands.
    number: gives the next operation of the harness its number.
    receipts: of the faults so far, by their ids.
    stuck: a last stable offset that already stood still while the workload went on; None: none did.
    """

    plan: Mapping[str, Any]
    cluster: Cluster
    roles: Sequence[Role]
    offsets: PartitionOffsets
    clock_jumps: ClockJumps
    most_s: float
    number: Callable[[], int]
    emit: Callable[[PerformerEvent], None]
    receipts: Mapping[int, Mapping[str, Any]]
    stuck: Standing | None = None

    @property
    def bound_s(self) -> float:
        """How long a last stable offset may stay below its high watermark."""
        return self.most_s or self.transaction_timeout_s + ABORT_MARGIN_S

    @property
    def transaction_timeout_s(self) -> float:
        """The longest transaction timeout of the run's clients and programs."""
        ours = float(self.plan["client"]["producer"].get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)) / 1000
        return max(ours, *(role.runs.transaction_timeout_s for role in self.roles if role.runs), 0.0)

    def clocks_over(self, healed_ns: int) -> int:
        """The time (ns) from which transaction timeouts count: coordinators whose clocks were ahead have stamped their starts."""
        over = max((clock.over_ns for clock in clocks_ahead(self.receipts.values(), self.clock_jumps.jumps)), default=0)
        return max(healed_ns, min(over, healed_ns + round(CLOCKS_S * 1e9)))

    def await_replicas(self) -> None:
        """Wait until every replica is in sync."""
        deadline = time.monotonic() + REPLICAS_S
        while behind := self._lagging():
            if time.monotonic() > deadline:
                self.emit(note_event(f"replicas still missing after {REPLICAS_S:.0f} s: {behind}"))
                return
            time.sleep(0.2)

    def _lagging(self) -> dict[str, str]:
        """Replicas that are missing, of the workload's topics; of the second cluster, of all topics there are."""
        behind = self.cluster.admin().lagging(self.plan["topics"])
        if second := second_of(self.cluster):
            topics = {name.rpartition("-")[0] for name in second.admin().placements()}
            behind |= {of_second(name): text for name, text in second.admin().lagging(topics).items()}
        return behind

    def await_stable_offsets(self, writer: HistoryWriter) -> tuple[dict[str, int], dict[str, int]]:
        """Wait until every last stable offset has reached its high watermark; past the bound, record what has not (lso-stall).

        The bound has passed already where one is still where it stood while the workload went on; where another one stands that
        is below its high watermark as well is then not known, for it may go on. Returns the last stable
        offsets and the high watermarks of all partitions; `UNKNOWN_END` where nobody said.
        """
        began = time.monotonic()
        until = self.clocks_over(time.monotonic_ns()) / 1e9 + self.bound_s
        number = self.number()
        writer.invoke(-1, number, "settle", {})
        while True:
            stable, high = self.offsets.ends(Isolation.COMMITTED), self.offsets.ends(Isolation.UNCOMMITTED)
            stood = self.stuck is not None and self.stuck.stands(stable, high)
            now = time.monotonic()
            waited = now - (self.stuck.since_s if self.stuck and stood else began)
            equal = stable == high and len(high) == len(self.offsets.all)
            if equal or stood or now > until:
                break
            time.sleep(0.1)
        early = {p for p in stable if p != self.stuck.partition and stable[p] != high.get(p)} if self.stuck and stood else set()
        offsets = {p: [-1 if p in early else stable.get(p, -1), high.get(p, -1)] for p in self.offsets.all}
        value = {"partitions": offsets, "bound_s": self.bound_s, "waited_s": round(waited, 3)}
        writer.complete(Outcome.OK if equal else Outcome.INFO, -1, number, "settle", value, errors=[])
        if not equal:
            self.emit(note_event(f"last stable offset below the high watermark after {waited:.0f} s: {offsets}"))
        unknown = dict.fromkeys(self.offsets.all, UNKNOWN_END)
        return {**unknown, **stable}, {**unknown, **high}

    def await_no_transaction(self, looks: TransactionLooks | None, healed_ns: int) -> None:
        """Ask until nothing is open for coordinators and leaders, or what is hangs."""
        until = self.clocks_over(healed_ns) + round((self.bound_s + LOOK_MARGIN_S) * 1e9)
        until = max(until, time.monotonic_ns() + round(LOOKS_S * 1e9))
        if looks and not looks.ask_until_none(healed_ns, until):
            self.emit(note_event("transactions are still open, or not every broker says which are"))
            self.tell_unasked(looks)

    def tell_unasked(self, looks: TransactionLooks) -> None:
        """Say so where the questions about open transactions came to an end before their time."""
        if looks.problem:
            self.emit(note_event(f"nobody asked any more which transactions are open: {looks.problem}"))

    def record_group_offsets(self, programs: Sequence[ProgramPart], writer: HistoryWriter) -> None:
        """Record what the groups of the workload and of its programs have committed, once every transaction is decided."""
        groups: dict[str, Callable[[], Mapping[str, int | None]]] = {
            group_of(self.plan, role): partial(self._committed, group_of(self.plan, role), topics_of(self.plan, role))
            for role in self.roles
            if role.group
        }
        groups |= {program.group: program.committed for program in programs if program.group}
        for group, committed in groups.items():
            number = self.number()
            writer.invoke(-1, number, "group-offsets", {})
            try:
                offsets, outcome = committed(), Outcome.OK
            except ClusterError as error:
                offsets, outcome = {}, Outcome.INFO
                self.emit(note_event(f"the offsets of group {group} are not known: {error}"))
            writer.complete(outcome, -1, number, "group-offsets", {"group": group, "offsets": offsets}, errors=[])

    def _committed(self, group: str, topics: Sequence[str]) -> Mapping[str, int | None]:
        return self.cluster.admin().group_offsets(group, partitions_of(self.plan, topics))
