"""Performs one test inside its cluster's sandbox: `python -m fencepost.harness.perform.performer RUN_DIR`.

Everything it needs is in the run directory's plan.json, everything it leaves is in the run directory. Events go out as JSON
lines on standard output (`harness.api.events`). `{"stop": "Ctrl-C"}` on standard input ends the workload early. The end of
standard input means that the harness is gone: the cluster is taken down. Judging happens elsewhere, later.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from fencepost.harness import secrets
from fencepost.harness.api import (
    SECOND,
    BoundsSettling,
    Cluster,
    ClusterError,
    HarnessError,
    Isolation,
    ListingTransactions,
    Outcome,
    Program,
    RaisesEpochs,
    ReportsSettings,
    TopicSpec,
    Workload,
)
from fencepost.harness.api.beneath import appending, log_file, make_folder
from fencepost.harness.api.clocks_ahead import ClockJump, jumps_text
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.errors import MachineError, lack_of_machine
from fencepost.harness.api.events import PerformerEvent, note_event, phase_event
from fencepost.harness.api.evidence import HistoryFile
from fencepost.harness.api.plans import Budget, Injection
from fencepost.harness.api.run import Plan, RunFile
from fencepost.harness.history.manifest import ManifestWriter
from fencepost.harness.history.run_directory import read_plan, write_plan
from fencepost.harness.history.writer import HistoryWriter, file_name
from fencepost.harness.perform import parent_watch
from fencepost.harness.perform.clock_jumps import ClockJumps
from fencepost.harness.perform.connect_part import await_growth, worker_directories
from fencepost.harness.perform.fault_runner import NOT_HEALED, FaultRunner
from fencepost.harness.perform.instance import END_S, directory_of
from fencepost.harness.perform.open_transactions import in_transaction
from fencepost.harness.perform.operators import OperatorService
from fencepost.harness.perform.partition_offsets import PartitionOffsets
from fencepost.harness.perform.plan_roles import (
    client_factory,
    coordinated,
    driver_directories,
    ids_of_clients,
    instances_of,
    roles_of,
    settings_of,
)
from fencepost.harness.perform.program_part import ProgramPart
from fencepost.harness.perform.recovery_wait import StandingOffsets, unrecovered
from fencepost.harness.perform.settling import Settling
from fencepost.harness.perform.stop_request import LEAVE, StopRequest
from fencepost.harness.perform.stored_records import write_stored
from fencepost.harness.perform.topic_logs import WorkloadLogs
from fencepost.harness.perform.transaction_looks import TransactionLooks
from fencepost.harness.perform.unplanned_ends import UnplannedEnds
from fencepost.harness.perform.wire_record import record_fetches, write_wire
from fencepost.harness.perform.worker_pool import Place, WorkerPool, end, unfinished
from fencepost.harness.planning.plan import complete
from fencepost.harness.plugins import registry
from fencepost.harness.system.logs import BoundedLogs
from fencepost.harness.system.whole_lines import write_line

Emit = Callable[[PerformerEvent], None]
PROGRESS_EVERY_S = 0.5
RECOVERY_S = 10.0  # how long the workload may go on after a run without a fault until every writer has succeeded once more
RECOVERY_MOST_S = 300.0  # how long it may at most after the last fault, however long the clients' own timeouts are
STOP_MARGIN_S = 10.0
INSTANCE_END_S = END_S + 10.0  # how long an instance may take to end
FINAL_READ_S = 120.0
STARTS_S = 30.0  # for every leader to say where its log begins


class Performance:
    """One test on a running cluster: the workload with faults, then healing and the final read."""

    def __init__(
        self, plan: Mapping[str, Any], run_dir: Path, cluster: Cluster, workload: Workload, emit: Emit, stop: StopRequest
    ) -> None:
        self._plan, self._run_dir, self._cluster = plan, run_dir, cluster
        self._emit, self._stop = emit, stop
        self._log = structlog.get_logger(run=plan["run"])
        self._roles = workload.roles()
        self._all_roles = roles_of(workload)
        self._slots = len(self._all_roles)
        self._manifest = ManifestWriter(run_dir, plan, self._slots)
        self._producer = plan["client"]["producer"]
        self._first_epoch = workload.first_epoch if isinstance(workload, RaisesEpochs) else 0
        self._offsets = PartitionOffsets(cluster, plan)
        self._partitions = self._offsets.all
        self._instances = {slot for slot, role in enumerate(self._roles) if role.runs}
        self._conductors = {slot for slot, role in enumerate(self._roles) if role.conducts}
        self._number = partial(next, itertools.count())  # of the harness's own operations
        self._logs = WorkloadLogs.of(workload, plan, cluster, self._number)
        programs = [role.program for role in self._roles if role.program]
        self._programs = [self._part_of(program) for at, program in enumerate(programs) if program not in programs[:at]]
        self._receipts: dict[int, Mapping[str, Any]] = {}
        self._unwritten: set[int] = set()
        self._clock_jumps = ClockJumps.of(cluster, self._tell_jumps)
        self._settling = Settling(
            plan=plan,
            cluster=cluster,
            roles=self._roles,
            offsets=self._offsets,
            clock_jumps=self._clock_jumps,
            most_s=workload.settle_s if isinstance(workload, BoundsSettling) else 0.0,
            number=self._number,
            emit=emit,
            receipts=self._receipts,
        )

    def run(self) -> None:
        """The workload with faults, then the final read. A stop shortens the first; the second always happens."""
        directories = [*driver_directories(self._plan["client"]), *worker_directories(self._roles, self._plan.get("connect", {}))]
        pool = WorkerPool(self._cluster, self._run_dir, self._slots, self._note, self._expect, directories)
        self._manifest.expect(
            [HistoryFile(RunFile.FAULT_LINES, role="faults"), HistoryFile("harness.jsonl", -1, "harness", "harness")]
        )
        for program in self._programs:
            pool.programs = pool.programs or program.images
            program.prepare()
        if any(program.program.wire for program in self._programs):
            record_fetches(self._cluster)
        self._raise_epochs()
        self._writer = self._own_writer()
        self._emit(phase_event("workload", f"{len(self._roles)} processes open their clients"))
        try:
            pool.start([slot for slot, role in enumerate(self._roles) if not role.spare])
        finally:  # clients that cannot be opened may wait by a clock that has jumped
            self._clock_jumps.look()
        with log_file(self._run_dir, f"{RunFile.LINES}/{RunFile.FAULT_LINES}") as receipts:  # a fault may end late
            self._run_workload(pool, receipts)
            self._emit(phase_event("heal", "healing everything"))
            self._look_around_at_the_end()
            self._cluster.heal()
            self._read_back(pool, time.monotonic_ns())
        if self._unwritten:
            ids = ", ".join(map(str, sorted(self._unwritten)))
            raise MachineError(f"receipts of faults ({ids}) could not be written: nobody knows what those hurt, and until when")
        self._manifest.complete()

    def _part_of(self, program: Program) -> ProgramPart:
        return ProgramPart(
            program=program,
            plan=self._plan,
            run_dir=self._run_dir,
            cluster=self._cluster,
            emit=self._emit,
            number=self._number,
        )

    def _raise_epochs(self) -> None:
        """Bring the epochs of all transactional ids to where the workload wants them."""
        if not self._first_epoch:
            return
        ids = self._cluster.transactional_ids
        self._emit(phase_event("workload", f"raising the epochs of {len(ids)} transactional ids to {self._first_epoch}"))
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda name: self._cluster.admin().raise_epoch(name, self._first_epoch), ids))

    def _own_writer(self) -> HistoryWriter:
        """The history of the harness's own operations."""
        path, who = self._run_dir / "history" / "harness.jsonl", {"slot": -1, "node": "harness", "role": "harness"}
        writer = HistoryWriter(path, run=self._plan["run"], pid=os.getpid(), **who)
        writer.process(-1, isolation=None, final=False, transactional_id=None, client="admin")
        return writer

    def _looks(self) -> TransactionLooks | None:
        """The questions about open transactions; None where the cluster cannot be asked."""
        writes = any(role.transactional or role.runs for role in self._roles)
        if not (writes and isinstance(self._cluster, ListingTransactions)):
            return None
        return TransactionLooks(self._cluster, self._offsets.at(""), self._writer, self._number)

    def _note(self, text: str) -> None:
        self._emit(note_event(text))

    def _expect(self, places: Sequence[Place]) -> None:
        """List the files of workers that are about to be started."""
        roles = [(slot, incarnation, self._all_roles[slot]) for slot, incarnation in places]
        self._manifest.expect(
            HistoryFile(file_name(slot, incarnation), slot, f"c{slot}", role.name, role.isolation.value)
            for slot, incarnation, role in roles
        )

    # -- faults on -------------------------------------------------------------------------------
    def _run_workload(self, pool: WorkerPool, receipts: Any) -> None:
        started = time.monotonic()
        writers = max(1, sum(role.name == "writer" for role in self._roles))
        self._stop.begin()
        pool.go({"rate": self._plan["rate"] / writers})
        runner = FaultRunner(
            self._cluster,
            [Injection(**injection) for injection in self._plan["schedule"]],
            make_fault,
            lambda line: self._receipt(receipts, line),
            budget=Budget(**self._plan.get("budget", {})),
            conditions={"transaction-open": lambda: in_transaction(self._run_dir / "history")},
        )
        self._ends = UnplannedEnds(self._cluster, runner.hurt, self._tell_ended)
        runner.start(time.monotonic_ns())
        pool.operate = OperatorService(self._cluster, runner, self._note).answer
        looks = self._looks()
        asking = looks.ask_through(lambda: None if self._ends.names else runner.quiet_since()) if looks else None
        self._emit(phase_event("workload", f"workload and faults for {self._plan['time_s']:g} s"))
        try:
            while time.monotonic() - started < self._plan["time_s"] and not self._stop.by:
                self._supervise(pool, runner, started)
            self._manifest.end_workload(time.monotonic() - started, self._stop.by)
            self._emit(phase_event("heal", "no more faults"))
            self._end_faults(pool, runner, started)
        finally:  # when this breaks off too, a fault must not outlive us
            for problem in runner.stop():
                self._emit(note_event(problem))
            self._unwritten = runner.unwritten
        self._await_recovery(pool, runner, started)
        pool.close_down(self._conductors)
        pool.stop(
            2 * self._settling.transaction_timeout_s + STOP_MARGIN_S,
            set(range(len(self._roles))) - self._instances - self._conductors,
        )
        self._supervise(pool, runner, started)
        if looks and asking:
            looks.stop(asking)
            self._settling.tell_unasked(looks)

    def _await_recovery(self, pool: WorkerPool, runner: FaultRunner, started: float) -> None:
        """Let the workload go on until every client has succeeded since healing; at most until the bound of recovery has passed,
        where a fault has struck and nobody has asked to stop. A last stable offset that stays for as long as settling may take
        ends the wait: settling has to see it before that transaction times out.
        """
        healed, before, noted = time.monotonic(), pool.slot_counts(), False
        standing, stands_s = StandingOffsets(self._offsets.ends), self._settling.bound_s
        bound_s = min(self._plan["recovery"]["bound_s"], RECOVERY_MOST_S) if self._receipts else RECOVERY_S
        while waiting := unrecovered(pool.running(self._awaited()), self._roles, before, pool.slot_counts()):
            waited_s = time.monotonic() - healed
            if waited_s > bound_s or (waited_s > RECOVERY_S and self._stop.by):
                return
            if waited_s > RECOVERY_S and not noted:
                names, noted = ", ".join(f"c{slot}" for slot in waiting), True
                self._emit(phase_event("heal", f"waiting up to {bound_s:.0f} s for {names} to succeed again"))
            stuck = standing.longest(time.monotonic())
            since_s = self._settling.clocks_over(round(stuck.since_s * 1e9)) / 1e9 if stuck else 0.0
            if stuck and time.monotonic() - since_s > stands_s and waited_s > RECOVERY_S:
                where = f"{stuck.partition} stays at {stuck.offset}"
                self._emit(phase_event("heal", f"the last stable offset of {where}: waiting no longer"))
                self._settling.stuck = stuck
                return
            self._supervise(pool, runner, started)

    def _awaited(self) -> set[int]:
        """The slots with clients of the harness that must succeed again. Readers get something only if something is written: what
        they read of a program is its instances' to write."""
        programs = self._instances or self._conductors
        awaits_reads = bool(self._receipts) and not programs
        return {
            slot
            for slot, role in enumerate(self._roles)
            if role.name in ("writer", "member") or (role.name == "reader" and awaits_reads)
        }

    def _end_faults(self, pool: WorkerPool, runner: FaultRunner, started: float) -> None:
        """Heal what is hurt. Workers are tended meanwhile: the pool starts those again that a fault has retired."""
        with ThreadPoolExecutor(max_workers=1) as own:
            ended = own.submit(runner.stop)
            while not ended.done():
                self._supervise(pool, runner, started)

    def _supervise(self, pool: WorkerPool, runner: FaultRunner, started: float) -> None:
        pool.tend()
        self._manifest.look()
        self._ends.look()
        self._clock_jumps.look()
        elapsed = time.monotonic() - started
        counts = pool.counts()
        self._emit(
            {
                "event": "progress",
                "elapsed_s": elapsed,
                "time_s": self._plan["time_s"],
                "ok": counts["ok"],
                "fail": counts["fail"],
                "info": counts["info"],
                "faults": runner.active(),
            }
        )
        time.sleep(PROGRESS_EVERY_S)

    def _look_around_at_the_end(self) -> None:
        """Look for what was no fault's doing, when no fault is under way any more."""
        self._ends.look_at_the_end()
        self._clock_jumps.look()

    def _tell_jumps(self, jumps: Sequence[ClockJump]) -> None:
        self._manifest.note_clock_jumps(jumps)
        self._note(jumps_text(jumps))

    def _tell_ended(self, names: Sequence[str]) -> None:
        self._manifest.note_ended(names)
        self._note(f"ended, and no fault ended it: {', '.join(names)}")

    def _receipt(self, file: Any, line: dict[str, Any]) -> None:
        write_line(file.fileno(), json.dumps(secrets.without_secrets(line)).encode())
        self._receipts[line["id"]] = line
        self._log.info(
            "fault", id=line["id"], kind=line["kind"], targets=line["targets"], effective=line["effective"], note=line["note"]
        )
        self._emit({"event": "fault", "text": receipt_text(line)})

    # -- healed ----------------------------------------------------------------------------------
    def _read_back(self, pool: WorkerPool, healed_ns: int) -> None:
        writer, looks = self._writer, self._looks()
        if looks:
            looks.ask(self._offsets.at(""), lambda: healed_ns)
        for program in self._programs:
            self._end_program(program, pool, writer)
        if self._instances and not self._programs:
            await_growth(self._offsets, pool.tend, self._emit)
        self._end_instances(pool)
        self._emit(phase_event("settle", "waiting for replicas, then for the last stable offsets"))
        self._manifest.look()
        self._settling.await_replicas()
        stable, high = self._settling.await_stable_offsets(writer)
        self._settling.await_no_transaction(looks, healed_ns)
        self._settling.record_group_offsets(self._programs, writer)
        self._emit(phase_event("final-read", f"reading {len(self._partitions)} partitions back"))
        starts = {**dict.fromkeys(self._partitions, -1), **self._offsets.starts(STARTS_S)}
        orders = {}
        for slot in range(len(self._roles), self._slots):
            role = self._all_roles[slot]
            ends = stable if role.isolation is Isolation.COMMITTED else high
            names = self._offsets.at(role.cluster)
            orders[str(slot)] = {
                "partitions": names,
                "starts": starts,
                "bound_s": FINAL_READ_S,
                "ends": {n: ends[n] for n in names},
            }
        for worker in pool.launch([int(slot) for slot in orders], orders):
            why = unfinished(worker, FINAL_READ_S + STOP_MARGIN_S)
            if why or worker.final != Outcome.OK.value:
                text = f"final reader {worker.slot} did not reach every end{why and f', for {why}'}: the final read is incomplete"
                self._note(text)
            end(worker)
        self._look_around_at_the_end()
        for problem in self._logs.record(writer):
            self._note(problem)
        writer.close()
        for problem in write_stored(self._cluster, self._plan["run"], self._run_dir):
            self._emit(note_event(problem))
        for problem in write_wire(self._cluster, self._run_dir):
            self._emit(note_event(problem))

    def _end_program(self, program: ProgramPart, pool: WorkerPool, writer: HistoryWriter) -> None:
        """Let the program catch up with its input, and record what its stores hold."""
        program.drain(pool.tend, writer)
        if program.program.stores:
            running = pool.running(self._instances)
            for problem in program.dump_stores(running, pool.tend, self._logs.entry_of(), writer):
                self._note(problem)

    def _end_instances(self, pool: WorkerPool) -> None:
        if self._conductors:
            pool.stop(STOP_MARGIN_S, self._conductors)
        if self._instances:
            pool.stop(INSTANCE_END_S, self._instances)
        for slot in self._instances:
            shutil.rmtree(directory_of(self._run_dir, slot), ignore_errors=True)


def starting_text(plan: Mapping[str, Any]) -> str:
    """The sentence that names what is about to be started."""
    second = plan["cluster"].get("description", {}).get("second", {}).get("brokers", ())
    return f"starting the cluster, and a second one: {', '.join(second)}" if second else "starting the cluster"


def receipt_text(line: Mapping[str, Any]) -> str:
    """A receipt in a line: `kill n2 strikes`, `kill n2 healed`, `kill n2 was not healed - ...`."""
    failed = NOT_HEALED in line["note"] and not line["healed_ns"]
    what = "was not healed" if failed else "healed" if line["healed_ns"] else "strikes"
    text = " ".join(filter(None, [line["kind"], ", ".join(line["targets"]), what]))
    if line["effective"] is False:
        return f"{text} - without effect: {line['note']}"
    return f"{text} - {line['note']}" if failed else text


def make_fault(injection: Injection) -> Any:
    """The fault that a plan's injection names, with its options."""
    return registry.build(registry.load("fencepost.nemesis", injection.kind), injection.options, f"schedule[{injection.id}]")


def main(argv: list[str]) -> int:
    faulthandler.enable()  # a library that crashes says where, in the performer's log
    run_dir = Path(argv[0])
    plan = read_plan(run_dir)
    out = os.dup(1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def emit(event: PerformerEvent) -> None:
        with lock, suppress(BrokenPipeError):  # nobody reads any more
            write_line(out, json.dumps(secrets.without_secrets(event)).encode())

    stop = StopRequest(partial(os.kill, os.getpid(), LEAVE))
    signal.signal(LEAVE, lambda *_: stop.leave())
    signal.signal(signal.SIGINT, lambda *_: stop.ask("SIGINT"))
    signal.signal(signal.SIGTERM, lambda *_: stop.ask("SIGTERM"))
    parent_watch.start(lambda command: stop.ask(command["stop"]) if "stop" in command else None)
    secrets.guard()
    _log_to(run_dir)
    make_folder(run_dir, RunFile.LINES)
    try:
        for settings in (plan["client"]["producer"], plan["client"]["consumer"]):
            secrets.resolve(settings)  # what the clients write into our logs is ours to hide
        provider = registry.build(
            registry.load("fencepost.cluster", plan["cluster"]["kind"]), plan["cluster"]["options"], "cluster"
        )
        workload = registry.build(
            registry.load("fencepost.workload", plan["workload"]["kind"]), plan["workload"]["options"], "workload"
        )
        for client in filter(None, (plan["client"], plan["client"].get("readers"))):
            client_factory(client)  # workers in containers are shown what is imported here
        topics = {name: TopicSpec(**spec) for name, spec in plan["topics"].items()}
        emit(phase_event("cluster", starting_text(plan)))
        logs = BoundedLogs(run_dir / "logs")
        with logs.bounded(), provider.up(run_dir, topics) as cluster, parent_watch.undisturbed_end():
            plan = _completed(plan, run_dir, cluster, emit)
            cluster.note_clients(**coordinated(plan, roles := workload.roles()))
            if second := second_of(cluster):
                second.note_clients(**coordinated(plan, roles, SECOND))
            cluster.note_instances(instances_of(roles), settings_of(roles), ids_of_clients(plan, roles))
            Performance(plan, run_dir, cluster, workload, emit, stop).run()
    except HarnessError as error:
        kind = "ClusterError" if isinstance(error, ClusterError) else type(error).__name__
        emit({"event": "failed", "kind": kind, "text": str(error)})
        return 1
    except (OSError, MemoryError, RuntimeError) as error:
        if not (lack := lack_of_machine(error)):
            raise
        emit({"event": "failed", "kind": MachineError.__name__, "text": lack})
        return 1
    finally:
        secrets.sweep(run_dir, RunFile.LOGS, lambda text: emit(note_event(text)))
    emit({"event": "performed"})
    return 0


def _completed(plan: Plan, run_dir: Path, cluster: Cluster, emit: Emit) -> Plan:
    """The plan with the settings of the topics as a cluster that is not ours has made them, and the contract that follows."""
    if not isinstance(cluster, ReportsSettings):
        return plan
    try:
        plan = complete(plan, cluster.effective_settings())
    except ClusterError as error:
        emit(note_event(f"judged by Kafka's defaults where the plan says nothing: {error}"))
        return plan
    write_plan(run_dir, plan)
    if plan["contract"]["min_insync_replicas"] == "1":
        text = (
            "min.insync.replicas is 1 here: acks=all may mean one replica, and its loss a lost record; [test.topic] can ask for 2"
        )
        emit(note_event(text))
    return plan


def _log_to(run_dir: Path) -> None:
    """Write this process's log into a run's directory, line by line."""
    log = os.fdopen(appending(run_dir, f"{RunFile.LOGS}/harness.log"), "a", buffering=1)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,  # the mask below is for tracebacks too
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
            lambda _logger, _method, line: secrets.mask(str(line)),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=log),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
