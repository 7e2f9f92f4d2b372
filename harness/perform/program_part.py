"""The part of a test that only a program of somebody's own has: it catches up with its input, and dumps its state stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fencepost.harness.api import Cluster, Outcome, Program
from fencepost.harness.api.events import PerformerEvent, note_event, phase_event
from fencepost.harness.api.roles import STORE_OFFSETS, changelog_of
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.draining import Draining, Offsets, last_inputs, task_stands_still
from fencepost.harness.perform.image_programs import ImagePrograms
from fencepost.harness.perform.instance import directory_of, group_of, topic_of
from fencepost.harness.perform.plan_roles import partitions_of
from fencepost.harness.perform.sink_store import SinkStore, StoreOffsets, of_plan
from fencepost.harness.perform.store_dumps import EntryOf, StoreDumps


@dataclass(frozen=True, kw_only=True)
class ProgramPart:
    """A program in one test on a running cluster.

    number: gives the harness's next operation its number.
    """

    program: Program
    plan: Mapping[str, Any]
    run_dir: Path
    cluster: Cluster
    emit: Callable[[PerformerEvent], None]
    number: Callable[[], int]

    @property
    def images(self) -> ImagePrograms | None:
        """The containers in which it runs; None: it has no image."""
        if not self.program.image:
            return None
        return ImagePrograms(self.cluster, self.run_dir, self.program.image, self.program.command)

    @property
    def group(self) -> str:
        """The consumer group, or the store with its own offsets in the place of one; empty: neither is known."""
        return STORE_OFFSETS if self._store_positions else group_of(self.plan, self.program)

    @property
    def input(self) -> str:
        """The topic that it reads, as the cluster has it."""
        return topic_of(self.plan, self.program.input)

    @cached_property
    def store(self) -> SinkStore | None:
        """The store of a sink; None: the program writes to a topic."""
        return of_plan(self.plan, self.program, self.run_dir) if self.program.store else None

    def prepare(self) -> None:
        """Make the directory of a sink's store, before an instance looks for it."""
        _ = self.store

    @cached_property
    def offsets(self) -> Callable[[], Offsets]:
        """The answers about its progress."""
        if self.store is None:
            return self.cluster.admin
        store = StoreOffsets(self.store, self.cluster.admin)
        return lambda: store

    @property
    def _store_positions(self) -> bool:
        return self.program.store is not None and bool(self.program.store.positions)

    @property
    def outputs(self) -> list[str]:
        """The partitions of its output, or the store."""
        return [self.store.name] if self.store else partitions_of(self.plan, [topic_of(self.plan, self.program.output)])

    def committed(self) -> Mapping[str, int | None]:
        """The offsets of its group, or those that the store has. Raises ClusterError."""
        return self.offsets().group_offsets(self.group, partitions_of(self.plan, [self.input]))

    def drain(self, tend: Callable[[], None], writer: HistoryWriter) -> None:
        """Let the program catch up with its input, and record whether it has."""
        program, history = self.program, self.run_dir / "history"
        self.emit(phase_event("drain", f"waiting until the application has caught up, at most {program.drain_s:g} s"))
        own = set(partitions_of(self.plan, [self.input]))
        last = {name: offset for name, offset in last_inputs(history).items() if name in own}
        number = self.number()
        writer.invoke(-1, number, "drain", {})
        draining = Draining(program, self.group, last, self.outputs, self.offsets, tend)
        draining.inputs = () if program.fed else sorted(own)
        draining.still, draining.say = lambda: task_stands_still(history), lambda text: self.emit(note_event(text))
        done, value = draining.wait()
        value |= {"group": self.group, "inputs": sorted(own), "fed": program.fed}
        writer.complete(Outcome.OK if done else Outcome.INFO, -1, number, "drain", value, errors=[])
        if not done:
            why = f": {draining.problem}" if draining.problem else ""
            self.emit(note_event(f"the application had not caught up with its input after {program.drain_s:g} s{why}"))

    def dump_stores(
        self, running: Iterable[int], tend: Callable[[], None], entry: EntryOf, writer: HistoryWriter
    ) -> Iterator[str]:
        """Have the running instances dump their state stores, and record the dumps; yields what could not be had."""
        self.emit(phase_event("drain", "the instances dump their state stores"))
        topics = {store.partition("=")[0]: changelog_of(self.group, store) for store in self.program.stores}
        directories = {f"c{slot}": directory_of(self.run_dir, slot) for slot in running}
        yield from StoreDumps(self.cluster, topics, directories, tend).record(entry, writer, self.number)
