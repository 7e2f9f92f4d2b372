"""Several programs of somebody's own in a row: what one writes, the next one reads.

Each is judged as an `application` is, between its own two topics. So is the whole by that: an input that each stage has processed
once was processed once from end to end.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import (
    HOUR_S,
    Between,
    Client,
    Isolation,
    Operation,
    Outcome,
    PlannedOperation,
    Program,
    ProgramInstance,
    Reader,
    Role,
    TopicSpec,
    Writer,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.application import Application
from fencepost.workloads.support.default_faults import OF_MEMBERS, OF_MEMBERS_LANES

INPUT, OUTPUT = "in", "out"


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Programs in a row between the topics `in`, `stage-1`, `stage-2`, ... and `out` (docs/sinks.md#several-stages).

    commands: what runs an instance of each program, in the order of the stages, as `command` of `application`
    instances: how many of each run
    names_input_by: how an output, of every stage, names the input of the first one: header NAME, key, json POINTER, regex
        PATTERN, value
    outputs_per_input: records that each program makes of an input, (fewest, most)
    ordered_by_key: every program keeps the order of inputs with one key
    keys: how many keys the inputs of one writer in one partition share, with ordered_by_key
    partitions: of each topic
    writers: processes that write input records, in transactions
    readers: read_committed processes that only poll, all topics
    input_abort_share: share of input transactions that are aborted
    think_ms: a writer's pause before each record
    transaction_timeout_s: how long a transaction of a program may stay open, its transaction.timeout.ms
    quiet_s: for how long the output and the offsets of a stage after the first must not move until its program is taken for
        done, although they are short of the ends of its input
    drain_s: how long each program may take to catch up at the end
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_MEMBERS
    default_lanes: ClassVar[Sequence[str]] = OF_MEMBERS_LANES

    commands: tuple[str, ...] = ()
    instances: Annotated[int, Between(1, 100)] = 2
    names_input_by: str = "header fencepost-input"
    outputs_per_input: Annotated[tuple[int, int], Between(0, 10_000)] = (1, 1)
    ordered_by_key: bool = False
    keys: Annotated[int, Between(1, 1_000_000)] = 1
    partitions: Annotated[int, Between(1, 5000)] = 4
    writers: Annotated[int, Between(1, 200)] = 2
    readers: Annotated[int, Between(0, 200)] = 1
    input_abort_share: Annotated[float, Between(0, 1)] = 0.1
    think_ms: Annotated[float, Between(0, 600_000)] = 2.0
    transaction_timeout_s: Annotated[float, Between(0, HOUR_S)] = 60.0
    quiet_s: Annotated[float, Between(0, HOUR_S)] = 45.0
    drain_s: Annotated[float, Between(0, HOUR_S)] = 180.0

    def __post_init__(self) -> None:
        demand_bounds(self)
        if len(self.commands) < 2:
            raise ValueError("commands: two programs or more, in the order of the stages; one alone is an `application`")
        resolved = tuple(shlex.join(part.words) for part in self._parts)
        object.__setattr__(self, "commands", resolved)  # a plan has the words that were executed

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The topics, in the order of the stages."""
        between = tuple(f"stage-{number}" for number in range(1, len(self.commands)))
        return (INPUT, *between, OUTPUT)

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        """Each program as an application."""
        return tuple(
            _Part(
                command=command,
                instances=self.instances,
                input_topic=self.names[number],
                output_topic=self.names[number + 1],
                input_partitions=self.partitions,
                output_partitions=self.partitions,
                names_input_by=self.names_input_by,
                outputs_per_input=self.outputs_per_input,
                ordered_by_key=self.ordered_by_key,
                keys=self.keys,
                group=f"fencepost-stage-{number + 1}",
                input_abort_share=self.input_abort_share,
                think_ms=self.think_ms,
                transaction_timeout_s=self.transaction_timeout_s,
                quiet_s=self.quiet_s,
                drain_s=self.drain_s,
            )
            for number, command in enumerate(self.commands)
        )

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """The programs, in the order of the stages."""
        return tuple(part.program(fed=number == 0) for number, part in enumerate(self._parts))

    def topics(self) -> dict[str, TopicSpec]:
        return {name: TopicSpec(partitions=self.partitions) for name in self.names}

    def roles(self) -> tuple[Role, ...]:
        return (
            *[Writer(transactional=True, polls=False)] * self.writers,
            *[ProgramInstance(program=program) for program in self.programs for _ in range(self.instances)],
            *[Reader(isolation=Isolation.COMMITTED)] * self.readers,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        return self._parts[0].producer_settings()

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        return self._parts[0].operations(role, partitions, rng)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        return self._parts[0].perform(op, client, run)


class _Part(Application):
    """One of several applications: what is not its input is the output of one of them."""

    @property
    def words(self) -> tuple[str, ...]:
        """Its command line."""
        return self._words

    def program(self, fed: bool) -> Program:
        """Its program. fed: by writers of the run."""
        (declared, *_) = (role.program for role in self.roles() if role.program)
        return replace(declared, fed=fed)

    def _is_output(self, partition: str) -> bool:
        topic = partition.rpartition("-")[0]
        return not (topic == self.input_topic or topic.endswith(f"-{self.input_topic}"))
