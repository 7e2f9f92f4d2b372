"""Clients of the small model of brokers (`support.broker_model`), which write histories in which rare circumstances are frequent.

    ops = model_history(seed, Setting(flaw=Flaw.LOSES_RECORDS)).ops

Writers, readers, members of a group and rivals for their transactional ids take turns by chance, at each `yield`: clients die at
any call, answers are lost, transactions time out, logs are compacted or lose their beginning. Without a flaw all of it is lawful.
A history depends on its seed and setting alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from fencepost.harness.api import record_id
from support.broker_model import DECIDED, Brokers, Fenced, Flaw, Steps, pause
from support.histories import COMMITTED, UNCOMMITTED, History

Op = dict[str, Any]
Send = list[Any]  # a micro-operation that is not complete
WRITERS, MEMBERS, READERS, RIVAL, OBSERVER, FINAL = range(10), range(10, 20), range(30, 40), 20, 45, 40  # slots
INPUTS, OUTPUTS, PARTITIONS = ("in-0", "in-1"), ("out-0", "out-1"), ("t-0", "t-1")
LAPSES_NS = (0, 0, 1, 3, 50, 1_000, 20_000)  # between two steps: many things happen at the same nanosecond
MOST_STEPS = 200_000
SECOND = 1_000_000_000


class Died(Exception):
    """The process of a client is over; its slot goes on with another one."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What takes place in a history beside writers and readers.

    flaw: of the brokers.
    plain: some writers send outside transactions.
    retention, compaction: of all partitions.
    group: members make outputs of inputs, in transactions with the group's offsets; static: with group.instance.id.
    """

    flaw: Flaw | None = None
    plain: bool = False
    retention: bool = False
    compaction: bool = False
    group: bool = False
    static: bool = False


@dataclass(frozen=True)
class ModelHistory:
    """ops: the operations, in the order of their times. brokers: as they are in the end."""

    ops: list[Op]
    brokers: Brokers


def model_history(seed: int, setting: Setting) -> ModelHistory:
    """The history of one seed, with final reads, and the group's offsets where there is one."""
    clients = Clients(seed, setting)
    clients.live()
    clients.settle()
    for isolation in (COMMITTED, UNCOMMITTED):
        clients.final_read(isolation)
    if setting.group:
        clients.group_offsets()
    ops = sorted(clients.h.ops, key=lambda op: op["time"])
    for index, op in enumerate(ops):
        op.update(index=index, mops=[tuple(mop) for mop in op["mops"]])
    return ModelHistory(ops, clients.brokers)


class Clients:
    """All clients of a history, and what they have done."""

    def __init__(self, seed: int, setting: Setting) -> None:
        self.rng, self.setting, self.h, self.processes = Random(seed), setting, History(), 0
        self.written = INPUTS if setting.group else PARTITIONS
        self.brokers = Brokers(self.rng, (*INPUTS, *OUTPUTS) if setting.group else PARTITIONS, setting.flaw)
        self.quiet = False

    # ---- time
    def live(self) -> None:
        """Let all clients do their work, then the brokers what is left of theirs."""
        ahead = self._actors()
        self.brokers.work.append(self._circumstances())
        for _ in range(MOST_STEPS):
            if not ahead:
                break
            self._step(ahead)
        assert not ahead, "clients wait for ever"
        self.quiet = True
        for name in list(self.brokers.ids):
            self.brokers.time_out(name)
        for _ in range(MOST_STEPS):
            if not self.brokers.work:
                break
            self._step([])
        self.h.now += SECOND

    def _step(self, ahead: list[Steps[None]]) -> None:
        actor = self.rng.choice(ahead + self.brokers.work)
        self.h.now += self.rng.choice(LAPSES_NS)
        try:
            next(actor)
        except StopIteration:
            (ahead if actor in ahead else self.brokers.work).remove(actor)

    def _actors(self) -> list[Steps[None]]:
        rng, actors = self.rng, []
        for slot in WRITERS[: 2 if self.setting.group else 3]:
            names: list[str | None] = [f"id{slot}"] if rng.random() < 0.7 else [f"id{slot}a", f"id{slot}b"]
            if self.setting.plain and rng.random() < 0.3:
                names = [None]
            actors.append(self.writer(slot, names, 8, rng.random() < 0.3 and not self.setting.group))
        if self.setting.group:
            actors += [self.member(slot, 24) for slot in MEMBERS[:3]]
            actors += [self.observer(12), self.reader(READERS[0], COMMITTED, 10)]
        else:
            actors.append(self.rival(f"id{rng.randrange(3)}"))
            actors += [self.reader(slot, rng.choice([COMMITTED, COMMITTED, UNCOMMITTED]), 25) for slot in READERS[:2]]
        return actors

    def _circumstances(self) -> Steps[None]:
        """Transactions that time out, sessions that end, and what retention and compaction take."""
        while not self.quiet:
            yield from pause(self.rng, range(20, 120))
            chance = self.rng.random()
            if self.quiet:
                return
            if chance < 0.4 and self.brokers.ids:
                self.brokers.time_out(self.rng.choice(list(self.brokers.ids)))
            elif chance < 0.6 and self.setting.retention:
                self.brokers.retain(self.rng.choice(self.written))
            elif 0.6 <= chance < 0.8 and self.setting.compaction:
                self.brokers.compact(self.rng.choice(self.written))
            elif chance >= 0.4 and self.setting.group:
                self.brokers.group.end_a_session(INPUTS)

    # ---- operations
    def _process(self) -> int:
        self.processes += 1
        return self.processes - 1

    def _op(self, process: int, slot: int, f: str, role: str = "writer", **fields: Any) -> Op:
        """A new operation, which has no completion yet."""
        nothing: dict[str, Any] = {"chains": [], "outputs": [], "offsets": [], "counts": [], "entries": []}
        now = self.h.now
        index = self.h.add(process, f, type="info", role=role, slot=slot, end=None, **nothing, **fields)
        self.h.now = now
        return self.h.ops[index]

    def _end(self, op: Op, type: str = "ok", **fields: Any) -> None:
        op.update(type=type, end=self.h.now, **fields)

    def _killed(self, op: Op, planned: Sequence[Send]) -> Died:
        """The worker was killed: the history has what it was about to send, and nothing of what came of it."""
        op.update(mops=[[*mop[:3], None, None, None] for mop in planned], decided=None, end=None, type="info")
        return Died()

    def _read(self, op: Op, partition: str, records: Sequence[tuple[int, int]]) -> None:
        op["mops"] += [[1, partition, v, offset, None, self.h.now] for offset, v in records]

    def _initialise(self, process: int, slot: int, names: Sequence[str | None], role: str) -> Steps[dict[str | None, int]]:
        epochs: dict[str | None, int] = {}
        for name in filter(None, names):
            op = self._op(process, slot, "initialise", role, transactional_id=name, detail="{}")
            yield
            epochs[name] = yield from self.brokers.initialise(name)
            if role == "writer" and self.rng.random() < 0.05:
                self._end(op, "info")
                raise Died
            yield
            self._end(op)
        return epochs

    # ---- writers
    def writer(self, slot: int, names: Sequence[str | None], count: int, polls: bool) -> Steps[None]:
        """Transactions of one producer or of several, or sends outside transactions; one process after the other."""
        left = iter(range(count))
        while next(left, None) is not None:
            process = self._process()
            positions = dict.fromkeys(self.written, 0) if polls else {}
            try:
                epochs = yield from self._initialise(process, slot, names, "writer")
                for _ in left:
                    name = self.rng.choice(names)
                    if name is None:
                        yield from self._send(process, slot)
                    else:
                        yield from self._transaction(process, slot, name, epochs[name], positions)
                    yield from pause(self.rng, (0, 0, 1, 5))
            except Died:
                yield from pause(self.rng, (0, 1, 5))

    def rival(self, name: str) -> Steps[None]:
        """Somebody initialises another one's transactional id now and then, and writes with it."""
        for _ in range(2):
            yield from pause(self.rng, range(20, 100))
            yield from self.writer(RIVAL, [name], self.rng.choice([2, 2, 3]), polls=False)

    def _send(self, process: int, slot: int) -> Steps[None]:
        rng, op = self.rng, self._op(process, slot, "send")
        yield
        for sequence in range(rng.choice([1, 1, 2])):
            op["mops"].append([0, rng.choice(self.written), record_id(process, op["op"], sequence), None, self.h.now, None])
        chance = rng.random()
        for mop in op["mops"]:
            yield
            if chance < 0.05:
                continue  # it reaches nobody
            offset = yield from self.brokers.append(None, 0, mop[1], mop[2])
            yield
            if chance >= 0.1:  # else its answer is lost
                mop[3], mop[5] = offset if rng.random() < 0.95 else None, self.h.now
        yield
        self._end(op, "ok" if all(mop[5] is not None for mop in op["mops"]) else "info")
        if rng.random() < 0.05:
            raise self._killed(op, op["mops"])

    def _transaction(self, process: int, slot: int, name: str, epoch: int, positions: dict[str, int]) -> Steps[None]:
        rng, op = self.rng, self._begin(process, slot, name, "writer")
        planned = self._planned(op, [rng.choice(self.written) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))])
        yield
        for partition in positions:
            if rng.random() < 0.5:
                records, positions[partition] = self.brokers.read(partition, positions[partition], COMMITTED, 3)
                self._read(op, partition, records)
        yield
        if rng.random() < 0.3:  # all are handed over before the first is answered
            for mop in planned:
                mop[4] = self.h.now
                op["mops"].append(mop)
                yield
        try:
            for mop in planned:
                if mop[4] is None:
                    mop[4] = self.h.now
                    op["mops"].append(mop)
                yield
                if rng.random() < 0.015:
                    raise self._killed(op, planned)
                if rng.random() < 0.01:  # the send fails, and the client aborts
                    self.brokers.abort(name, epoch)
                    self._end(op, "fail")
                    return
                offset = yield from self.brokers.append(name, epoch, mop[1], mop[2])
                if rng.random() < 0.02:
                    raise self._killed(op, planned)
                yield
                mop[3], mop[5] = offset if rng.random() < 0.93 else None, self.h.now
        except Fenced:
            self._end(op, "fail")
            raise Died from None
        yield
        if rng.random() < 0.02:
            raise self._killed(op, planned)
        yield from self._decide(op, name, epoch, planned)

    def _begin(self, process: int, slot: int, name: str, role: str) -> Op:
        intent = self.rng.choice(["commit"] * 5 + ["abort"])
        return self._op(process, slot, "txn", role, transactional_id=name, intent=intent)

    def _planned(self, op: Op, partitions: Sequence[str]) -> list[Send]:
        return [[0, name, record_id(op["process"], op["op"], number), None, None, None] for number, name in enumerate(partitions)]

    def _decide(self, op: Op, name: str, epoch: int, planned: Sequence[Send]) -> Steps[None]:
        """Commit or abort. Raises Died where the client is of no use any more."""
        rng, known = self.rng, self.brokers.id(name)
        if op["intent"] == "abort":
            self.brokers.abort(name, epoch)
            yield
            if epoch != known.epoch:
                self._end(op, "fail")
                raise Died
            self._end(op, rng.choice(["ok", "fail"]))
            return
        op["decided"] = self.h.now
        yield from pause(rng, (0, 0, 1, 4))
        if not self.brokers.admits(name, epoch):
            self._end(op, "ok" if self.brokers.errs(Flaw.PRAISES_ZOMBIES) else "info")
            raise Died
        chance = rng.random()
        if chance < 0.03:  # the request is lost
            yield from pause(rng, (3,))
            self._end(op, "info")
            raise Died
        if chance < 0.05:
            raise self._killed(op, planned)
        if known.is_open:
            self.brokers.decide(name, True)
        if chance < 0.1:  # the answer is lost
            yield from pause(rng, (3,))
            if rng.random() < 0.3:
                raise self._killed(op, planned)
            self._end(op, "info")
            if rng.random() < 0.5:
                raise Died
            return
        transaction, waits = known.transaction, rng.random() < 0.5
        while waits and transaction is not None and transaction.state == DECIDED:
            yield
        yield
        self._end(op)

    # ---- readers
    def reader(self, slot: int, isolation: str, count: int) -> Steps[None]:
        """Polls that return what was fetched a while before; seeks back; processes that begin anew."""
        rng, left = self.rng, count
        while left > 0:
            process, life = self._process(), rng.choice([3, 10, 99])
            positions, reached = dict.fromkeys(self.written, 0), dict.fromkeys(self.written, 0)
            fetched: dict[str, list[tuple[int, int]]] = {partition: [] for partition in self.written}
            while left > 0 and life > 0:
                left, life = left - 1, life - 1
                if rng.random() < 0.08 and any(reached.values()):
                    partition = rng.choice(self.written)
                    yield from self._seek(process, slot, "reader", {partition: rng.randint(0, reached[partition])}, positions)
                    fetched[partition] = []
                    continue
                op = self._op(process, slot, "poll", "reader", isolation=isolation)
                yield
                for partition in self.written:
                    if rng.random() < 0.6 and not fetched[partition]:
                        most = rng.choice([1, 3, 10])
                        fetched[partition], positions[partition] = self.brokers.read(
                            partition, positions[partition], isolation, most
                        )
                    yield
                if rng.random() < 0.02:
                    break  # it is killed
                for partition, records in fetched.items():
                    got = records[: rng.choice([0, 1, 2, 10])]
                    del records[: len(got)]
                    self._read(op, partition, got)
                    reached[partition] = max([reached[partition], *(offset + 1 for offset, _ in got)])
                self._end(op)
                yield from pause(rng, (0, 3, 10))

    def _seek(self, process: int, slot: int, role: str, to: dict[str, int], positions: dict[str, int]) -> Steps[None]:
        op = self._op(process, slot, "seek", role, detail=json.dumps({"positions": to}))
        yield
        if not to.keys() <= positions.keys():
            self._end(op, "fail")
            raise Died
        positions.update(to)
        self._end(op)

    # ---- members of the group
    def member(self, slot: int, count: int) -> Steps[None]:
        """Polls, and transactions that make outputs of what they returned, with the group's offsets in them."""
        rng, group = self.rng, self.brokers.group
        names = [f"m{slot}"] if rng.random() < 0.6 else [f"m{slot}", f"m{slot}b"]
        left = iter(range(count))
        while next(left, None) is not None:
            process = self._process()
            member = f"static-{slot}" if self.setting.static else f"member-{process}"
            try:
                epochs = yield from self._initialise(process, slot, names, "member")
                op = self._op(process, slot, "subscribe", "member", detail=json.dumps({"topics": ["in"]}))
                yield
                group.join(member, process, INPUTS)
                self._end(op)
                yield from self._work(process, slot, member, epochs, left)
                if rng.random() < 0.5:
                    group.leave(member, process, INPUTS)
            except Died:
                pass
            yield from pause(rng, (0, 2, 10))
            if not self.setting.static or rng.random() < 0.3:
                self.brokers.work.append(self._expire(member, process))

    def _expire(self, member: str, process: int) -> Steps[None]:
        """The session of a member that is gone ends."""
        yield from pause(self.rng, (0, 5, 30))
        self.brokers.group.leave(member, process, INPUTS)

    def _work(self, process: int, slot: int, member: str, epochs: dict[str | None, int], left: Iterator[int]) -> Steps[None]:
        rng, names, turn = self.rng, sorted(filter(None, epochs)), 0
        own: dict[str, int] = {}  # partition -> position
        for _ in left:
            got = yield from self._member_poll(process, slot, member, own)
            if rng.random() < 0.1:
                yield from self._committed(process, slot, "member", INPUTS)
            if not got:
                continue
            name = names[turn % len(names)]
            op = yield from self._process_inputs(process, slot, name, epochs[name], member, got)
            if op["type"] == "ok" and op["intent"] == "commit":
                turn += 1
                continue
            positions: dict[str, int | None] = {partition: records[0][0] for partition, records in got.items()}
            if op["type"] == "info":
                told = yield from self._committed(process, slot, "member", sorted(got))
                positions = {partition: told[partition] or position for partition, position in positions.items()}
            yield from self._seek(process, slot, "member", positions, own)

    def _member_poll(self, process: int, slot: int, member: str, own: dict[str, int]) -> Steps[dict[str, list[tuple[int, int]]]]:
        """One poll: what became of the member's partitions, and records of those that it has."""
        group, op = self.brokers.group, self._op(process, slot, "poll", "member")
        yield
        if group.replaced(member, process):
            self._end(op, "fail")
            raise Died
        told = []
        if not group.has(member, process):  # its session has ended
            told += [["lost", sorted(own)]] if own else []
            own.clear()
            group.join(member, process, INPUTS)
        elif revoked := sorted(partition for partition in own if group.wanted.get(partition) != member):
            told.append(["revoked", revoked])
            for partition in revoked:
                del own[partition]
                group.give_up(partition)
            yield
        new = sorted(set(group.take(member)) - own.keys())
        if new:
            offsets = yield from group.fetch(new)
            if group.owns(member, process, new):
                told.append(["assigned", new])
                own.update({partition: offsets[partition] or 0 for partition in new})
        got = {}
        for partition in sorted(own):
            if self.rng.random() < 0.7:
                records, own[partition] = self.brokers.read(partition, own[partition], COMMITTED, self.rng.choice([1, 2, 4]))
                got |= {partition: records} if records else {}
            yield
        for partition, records in got.items():
            self._read(op, partition, records)
        self._end(op, detail=json.dumps({"rebalances": told}) if told else None)
        return got

    def _committed(self, process: int, slot: int, role: str, partitions: Sequence[str]) -> Steps[dict[str, int | None]]:
        op = self._op(process, slot, "committed", role)
        yield
        offsets = yield from self.brokers.group.fetch(partitions)
        op["detail"] = json.dumps({"offsets": offsets})
        yield from pause(self.rng, (1, 1, 3))
        self._end(op)
        return offsets

    def observer(self, count: int) -> Steps[None]:
        """Somebody who looks at the group's offsets."""
        process = self._process()
        for _ in range(count):
            yield from self._committed(process, OBSERVER, "reader", [name for name in INPUTS if self.rng.random() < 0.8])
            yield from pause(self.rng, (0, 10))

    def _process_inputs(
        self, process: int, slot: int, name: str, epoch: int, member: str, got: dict[str, list[tuple[int, int]]]
    ) -> Steps[Op]:
        """A transaction with up to two outputs of each input."""
        rng, op = self.rng, self._begin(process, slot, name, "member")
        planned = self._outputs(op, got)
        yield
        try:
            for mop in planned:
                mop[4] = self.h.now
                op["mops"].append(mop)
                yield
                if rng.random() < 0.01:
                    raise self._killed(op, planned)
                offset = yield from self.brokers.append(name, epoch, mop[1], mop[2])
                yield
                mop[3], mop[5] = offset, self.h.now
            if rng.random() < 0.3:  # meanwhile the group may be rebalanced
                yield from pause(rng, range(1, 80))
            transaction = yield from self.brokers.opened(name, epoch)
        except Fenced:
            self._end(op, "fail")
            raise Died from None
        group = self.brokers.group
        if not group.owns(member, process, got) and not self.brokers.errs(Flaw.ADMITS_FORMER_OWNERS):
            self.brokers.abort(name, epoch)
            yield
            self._end(op, "fail")
            return op
        for row in op["offsets"]:
            group.add(transaction, row["partition"], row["offset"])
        yield
        if rng.random() < 0.02:
            raise self._killed(op, planned)
        yield from self._decide(op, name, epoch, planned)
        return op

    def _outputs(self, op: Op, got: dict[str, list[tuple[int, int]]]) -> list[Send]:
        """What a member is to send, and its inputs and offsets."""
        rng = self.rng
        made = [
            (partition, offset, v, [rng.choice(OUTPUTS) for _ in range(rng.choice([0, 1, 1, 2]))])
            for partition, records in got.items()
            for offset, v in records
        ]
        planned = self._planned(op, [output for *_, outputs in made for output in outputs])
        identities = (mop[2] for mop in planned)
        for partition, offset, v, outputs in made:
            for output in [next(identities) for _ in outputs] or [None]:
                op["chains"].append({"partition": partition, "offset": offset, "v": v, "output": output})
        op["offsets"] = [{"partition": partition, "offset": records[-1][0] + 1} for partition, records in got.items()]
        return planned

    # ---- the end
    def settle(self) -> None:
        """Look at last stable offsets, until all have reached the ends or the bound has passed."""
        ends = {partition: [self.brokers.fates(partition)[1], len(log)] for partition, log in self.brokers.logs.items()}
        stable = all(offset == end for offset, end in ends.values())
        op = self._op(-1, -1, "settle", "harness", isolation=None)
        self.h.now += SECOND if stable else 31 * SECOND
        detail = {"partitions": ends, "bound_s": 30.0, "waited_s": 1.0 if stable else 31.0}
        self._end(op, "ok" if stable else "info", detail=json.dumps(detail))

    def final_read(self, isolation: str) -> None:
        process = self._process()
        op = self._op(process, FINAL, "poll", "final", isolation=isolation, final=True)
        self.h.now += 1_000
        spans = {}
        for partition, log in self.brokers.logs.items():
            records, _ = self.brokers.read(partition, 0, isolation, len(log))
            self._read(op, partition, records)
            start, end = (
                self.brokers.starts[partition],
                len(log) if isolation == UNCOMMITTED else self.brokers.fates(partition)[1],
            )
            spans[partition] = [start, end, max(start, end)]
        self._end(op)
        op = self._op(process, FINAL, "final-read", "final", isolation=isolation, final=True)
        self.h.now += 1_000
        self._end(op, detail=json.dumps(spans))

    def group_offsets(self) -> None:
        op = self._op(-1, -1, "group-offsets", "harness", isolation=None)
        self.h.now += 1_000
        offsets = {partition: self.brokers.group.offsets.get(partition) for partition in INPUTS}
        self._end(op, detail=json.dumps({"group": "g", "offsets": offsets}))
