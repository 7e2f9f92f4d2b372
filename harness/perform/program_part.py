"""The part of a test that only a program of somebody's own has: it catches up with its input, and dumps its state stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.harness.api import Cluster, Outcome, Program
from fencepost.harness.api.events import PerformerEvent, note_event, phase_event
from fencepost.harness.api.roles import changelog_of
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.draining import Draining, last_inputs, task_stands_still
from fencepost.harness.perform.image_programs import ImagePrograms
from fencepost.harness.perform.instance import directory_of, group_of, topic_of
from fencepost.harness.perform.store_dumps import EntryOf, StoreDumps
from fencepost.harness.perform.worker import partitions_of


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
        """The consumer group; empty: not known."""
        return group_of(self.plan, self.program)

    @property
    def input(self) -> str:
        """The topic that it reads, as the cluster has it."""
        return topic_of(self.plan, self.program.input)

    def drain(self, tend: Callable[[], None], writer: HistoryWriter) -> None:
        """Let the program catch up with its input, and record whether it has."""
        program, history = self.program, self.run_dir / "history"
        self.emit(phase_event("drain", f"waiting until the application has caught up, at most {program.drain_s:g} s"))
        own = set(partitions_of(self.plan, [self.input]))
        last = {name: offset for name, offset in last_inputs(history).items() if name in own}
        outputs = partitions_of(self.plan, [topic_of(self.plan, program.output)])
        number = self.number()
        writer.invoke(-1, number, "drain", {})
        done, value = Draining(
            program, self.group, last, outputs, self.cluster.admin, tend, lambda: task_stands_still(history)
        ).wait()
        writer.complete(Outcome.OK if done else Outcome.INFO, -1, number, "drain", value, errors=[])
        if not done:
            self.emit(note_event(f"the application had not caught up with its input after {program.drain_s:g} s"))

    def dump_stores(
        self, running: Iterable[int], tend: Callable[[], None], entry: EntryOf, writer: HistoryWriter
    ) -> Iterator[str]:
        """Have the running instances dump their state stores, and record the dumps; yields what could not be had."""
        self.emit(phase_event("drain", "the instances dump their state stores"))
        topics = {store.partition("=")[0]: changelog_of(self.group, store) for store in self.program.stores}
        directories = {f"c{slot}": directory_of(self.run_dir, slot) for slot in running}
        yield from StoreDumps(self.cluster, topics, directories, tend).record(entry, writer, self.number)
