"""Somebody's own program as the pipeline: it reads numbered input, writes what it makes of it, and is judged from outside.

After KIP-98 and KIP-447, whose promise such a program passes on: what it makes of each input is there once.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import (
    HOUR_S,
    OWN_GROUP,
    Between,
    CallError,
    Client,
    Isolation,
    LogEntry,
    LogRecord,
    Operation,
    Outcome,
    PlannedOperation,
    Polled,
    Program,
    ProgramInstance,
    Reader,
    Role,
    TopicSpec,
    Writer,
    own_group,
    record_ids,
    split_record_id,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.harness.api.roles import changelog_of
from fencepost.harness.system.command_words import placeholders_in, resolved
from fencepost.workloads.support import record_format
from fencepost.workloads.support.default_faults import OF_MEMBERS, OF_MEMBERS_LANES
from fencepost.workloads.support.inputs_and_outputs import (
    HEADER,
    NAME,
    NO_INPUT,
    containing,
    counting,
    counts_of,
    differs,
    name_of,
    named,
    naming,
    templated,
)
from fencepost.workloads.support.polling import failed_poll, mop_of, poll_records, reader_operations
from fencepost.workloads.support.sending import Content
from fencepost.workloads.support.stored_values import stored_values
from fencepost.workloads.transactions import Transactions


@dataclass(frozen=True, kw_only=True)
class Application:
    """A program of your own between an input and an output topic (docs/your-application.md).

    command: what runs an instance: a text that is split as a shell does, or a list of words; {python} stands for fencepost's own
        interpreter, {examples} for the directory of the examples that come with it
    image: on clusters in Docker: the image in which it runs; without a command, what the image runs by itself
    instances: how many run
    spares: how many more the fault `scale` may start
    writers: processes that write input records, in transactions
    readers: read_committed processes that only poll, both topics
    input_topic, output_topic: their names
    input_partitions: of the input topic
    output_partitions: of the output topic
    outputs_per_input: records that are made of an input, (fewest, most); fewest = 0: it may be dropped
    names_input_by: how an output names its input: header NAME, key, json POINTER, regex PATTERN, value
    value: the value of an input record, {input} stands for its name; empty: text of ours
    ordered_by_key: the outputs of inputs with one key keep their order; keys are then shared by several inputs
    counts: where an output says how many inputs with its key the program has counted, that of the output included: header NAME,
        json POINTER, regex PATTERN; empty: it has no such state. Several inputs then share a key
    keys: how many keys the inputs of one writer in one partition share, with ordered_by_key or counts
    stores: names of its state stores, which its instances dump when they are asked to; the changelog of each is the topic
        GROUP-NAME-changelog, or another one: NAME=TOPIC
    stored: what a stored value says: count HOW (how many inputs its key had, HOW as for counts), last HOW (the last input of its
        key, HOW as for names_input_by); empty: nothing, so that stores and changelogs are compared with one another only
    group: the program's consumer group; FENCEPOST_GROUP: the one that its environment names; empty: unknown
    inputs_per_transaction: input records that a writer sends in one transaction, (fewest, most)
    input_abort_share: share of input transactions that are aborted, so that the input topic has gaps
    think_ms: a writer's pause before each record
    transaction_timeout_s: how long a transaction of the program may stay open, its transaction.timeout.ms
    quiet_s: for how long the output must not grow until the program is taken for done, where its group is unknown
    drain_s: how long the program may take to catch up at the end
    record_bytes: about the size of an input record's value
    content: where an output has the content of its input, unchanged or as its SHA-256 in hex: header NAME, json POINTER,
        regex PATTERN, value; empty: nowhere, so that no content is judged
    wire: the program's own transactions, sends and reads are judged too, by its requests as proxies record them; the
        cluster needs proxy = true
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_MEMBERS
    default_lanes: ClassVar[Sequence[str]] = OF_MEMBERS_LANES

    command: str | tuple[str, ...] = ""
    image: str = ""
    instances: Annotated[int, Between(1, 200)] = 3
    spares: Annotated[int, Between(0, 200)] = 0
    writers: Annotated[int, Between(1, 200)] = 2
    readers: Annotated[int, Between(0, 200)] = 1
    input_topic: str = "in"
    output_topic: str = "out"
    input_partitions: Annotated[int, Between(1, 5000)] = 12
    output_partitions: Annotated[int, Between(1, 5000)] = 4
    outputs_per_input: Annotated[tuple[int, int], Between(0, 10_000)] = (1, 1)
    names_input_by: str = f"header {HEADER}"
    value: str = ""
    ordered_by_key: bool = False
    counts: str = ""
    keys: Annotated[int, Between(1, 1_000_000)] = 1
    stores: tuple[str, ...] = ()
    stored: str = ""
    group: str = OWN_GROUP
    inputs_per_transaction: Annotated[tuple[int, int], Between(1, 4000)] = (2, 12)
    input_abort_share: Annotated[float, Between(0, 1)] = 0.1
    think_ms: Annotated[float, Between(0, 600_000)] = 2.0
    transaction_timeout_s: Annotated[float, Between(0, HOUR_S)] = 60.0
    quiet_s: Annotated[float, Between(0, HOUR_S)] = 60.0
    drain_s: Annotated[float, Between(0, HOUR_S)] = 180.0
    record_bytes: Annotated[int, Between(0, 10_000_000)] = 100
    content: str = ""
    wire: bool = False

    def __post_init__(self) -> None:
        demand_bounds(self)
        self._resolve_command()
        if not (self._words or self.image):
            raise ValueError("command: the words of a command, like python my_program.py")
        low, high = self.outputs_per_input
        if low > high or not high:
            raise ValueError(f"outputs_per_input: (fewest, most) with fewest <= most and 1 <= most, not ({low}, {high})")
        if f"-{self.input_topic}".endswith(f"-{self.output_topic}"):
            raise ValueError(f"output_topic: not the end of the input's name, {self.input_topic}")
        if self.value and NAME not in self.value:
            raise ValueError(f"value: a text with {NAME} in it, which stands for the input's name")
        if self._shared_keys and self.names_input_by == "key":
            raise ValueError("names_input_by: not the key, which several inputs share with ordered_by_key or counts")
        if self.counts and (low, high) != (1, 1):
            raise ValueError("counts: an output for each input, so outputs_per_input is [1, 1]")
        naming(self.names_input_by)
        if self.counts:
            counting(self.counts)
        if self.content:
            containing(self.content)
        self._demand_stores()

    def _resolve_command(self) -> None:
        """Put real paths in the place of placeholders, so that a plan has the words that were executed."""
        split = tuple(shlex.split(self.command) if isinstance(self.command, str) else self.command)
        if self.image and (named := placeholders_in(split)):
            raise ValueError(f"command: {named[0]} stands for a path of this machine, which an image does not have")
        try:
            words = resolved(split)
        except ValueError as error:
            raise ValueError(f"command: {error}") from error
        if words != split:
            object.__setattr__(self, "command", words)

    def _demand_stores(self) -> None:
        """Raises ValueError for stores whose changelog is not known, and for values that nothing can be compared with."""
        for store in self.stores:
            if not (self.group or "=" in store):
                raise ValueError(f"stores: the group is not known, so the changelog's name has to be given: {store}=TOPIC")
        if self.stored and not self.stores:
            raise ValueError("stored: says what the values of a store hold, and there are no stores")
        if self.stored and not self._shared_keys:
            raise ValueError("stored: for inputs that share keys, so with ordered_by_key or counts")
        stored_values(self.stored)

    @property
    def _shared_keys(self) -> bool:
        return self.ordered_by_key or bool(self.counts)

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.command) if isinstance(self.command, str) else self.command)

    def topics(self) -> dict[str, TopicSpec]:
        return {
            self.input_topic: TopicSpec(partitions=self.input_partitions),
            self.output_topic: TopicSpec(partitions=self.output_partitions),
        }

    def roles(self) -> tuple[Role, ...]:
        program = Program(
            command=self._words,
            input=self.input_topic,
            output=self.output_topic,
            image=self.image,
            group=self.group,
            outputs=self.outputs_per_input,
            ordered=self.ordered_by_key,
            counts=bool(self.counts),
            keys=self.keys,
            stores=self.stores,
            transaction_timeout_s=self.transaction_timeout_s,
            quiet_s=self.quiet_s,
            drain_s=self.drain_s,
            wire=self.wire,
        )
        return (
            *[Writer(transactional=True, polls=False)] * self.writers,
            *[ProgramInstance(program=program)] * self.instances,
            *[Reader(isolation=Isolation.COMMITTED)] * self.readers,
            *[ProgramInstance(program=program, spare=True)] * self.spares,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        return self._feed.producer_settings()

    @cached_property
    def _feed(self) -> Feed:
        return Feed(
            sends=self.inputs_per_transaction,
            poll_share=0.0,
            abort_share=self.input_abort_share,
            think_ms=self.think_ms,
            record_bytes=self.record_bytes,
            template=self.value,
            keys=self.keys if self._shared_keys else 0,
        )

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        if role.name != "writer":
            return reader_operations()
        return self._feed.operations(role, [name for name in partitions if not self._is_output(name)], rng)

    def _is_output(self, partition: str) -> bool:
        """Return whether a partition is one of the output topic, whose name may begin with the run's prefix."""
        topic = partition.rpartition("-")[0]
        return topic == self.output_topic or (topic.endswith(f"-{self.output_topic}") and topic != self.input_topic)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        return self._read(op, client, run) if op.planned.f == "poll" else self._feed.perform(op, client, run)

    def _read(self, op: Operation, client: Client, run: str) -> Outcome:
        """A poll of both topics: inputs are a `poll` micro-operation, outputs an `output`."""
        try:
            records = poll_records(client, op.planned.limit)
        except CallError as error:
            return failed_poll(op, error)
        inputs = [record for record in records if not self._is_output(record.partition)]
        outputs = [record for record in records if self._is_output(record.partition)]
        op.value[0] = mop_of("poll", inputs, lambda record: self._input(record, run))
        if outputs:
            op.value.append(mop_of("output", outputs, lambda record: self._output(record, run)))
        if outputs and self.counts:
            op.value.append(["count", counts_of(outputs, self._counting)])
        return Outcome.OK

    def _input(self, record: Polled, run: str) -> tuple[int, str | None]:
        return templated(record, self.value, run) if self.value else record_format.decode(record, run)

    def _output(self, record: Polled, run: str) -> tuple[int, str | None]:
        """The identity of the input that an output names, if it has its content, too; or why not."""
        v, why = named(record, self._naming, run)
        if why is not None or not self.content:
            return v, why
        why = differs(record, self._containing, self._contents(record, v, run))
        return (v, None) if why is None else (NO_INPUT, why)

    def _contents(self, record: Polled, v: int, run: str) -> Iterator[bytes]:
        """What the input with an identity may have as its value: in each partition, to be committed or aborted."""
        if self.value:
            yield self._feed.own_value(run, v)
            return
        prefix = record.partition.rpartition("-")[0].removesuffix(self.output_topic)
        process, op, seq = split_record_id(v)
        for number, intent in product(range(self.input_partitions), ("commit", "abort")):
            partition = f"{prefix}{self.input_topic}-{number}"
            yield record_format.encode(run, process, op, seq, partition, intent, self.record_bytes)

    @cached_property
    def _containing(self) -> Any:
        return containing(self.content)

    @cached_property
    def _naming(self) -> Any:
        return naming(self.names_input_by)

    @cached_property
    def _counting(self) -> Any:
        return counting(self.counts)

    # -- stores and changelogs -----------------------------------------------------------------------
    def logs(self, prefix: str) -> tuple[str, ...]:
        """The changelogs of the stores."""
        group = own_group(prefix) if self.group == OWN_GROUP else self.group
        return tuple(changelog_of(group, store) for store in self.stores)

    def entry(self, record: LogRecord, run: str) -> LogEntry:
        """The entry of a record of a changelog, or of a row of a store."""
        return self._stored(record, run)

    @cached_property
    def _stored(self) -> Callable[[LogRecord, str], LogEntry]:
        return stored_values(self.stored)


@dataclass(frozen=True, kw_only=True)
class Feed(Transactions):
    """The transactions of the writers of input records.

    template: of a value; empty: text of ours.
    keys: how many keys the inputs of a writer in a partition share; 0: each input has a key of its own.
    """

    template: str = ""
    keys: int = 0

    def content(self, op: Operation, seq: int, run: str) -> Content:
        partition, v = op.value[seq][1:3]
        name, own = name_of(run, v), self.own_value(run, v)
        value = own or record_format.encode(run, op.process, op.number, seq, partition, op.planned.intent, self.record_bytes)
        key = f"{partition}/{op.process}/{record_ids.key_number_of(v, self.keys)}" if self.keys else name
        return Content(key.encode(), value, ((HEADER, name.encode()),))

    def own_value(self, run: str, v: int) -> bytes:
        """The value of an input by the template; empty without one."""
        return self.template.replace(NAME, name_of(run, v)).encode()
