"""The workers of a run: started, replaced when they die, stopped; their reports are read."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

from fencepost.harness.api import Cluster, ClusterError, Scalable, Spawned
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.files import last_words
from fencepost.harness.api.run import RunFile
from fencepost.harness.perform.image_programs import ImagePrograms
from fencepost.harness.perform.recovery_wait import SlotCounts
from fencepost.harness.system.python_command import module_command
from fencepost.harness.system.whole_lines import whole_lines

COUNTED = ("ok", "fail", "info")
Place = tuple[int, int]  # a slot, and how many workers it had before


class Worker:
    """One slot's operating-system process, and what it has reported. A replacement is a new Worker of the same slot."""

    def __init__(self, slot: int, process: int, incarnation: int, popen: Spawned) -> None:
        self.slot, self.process, self.incarnation, self.popen = slot, process, incarnation, popen
        self.counts = SlotCounts()
        self.ready = threading.Event()
        self.done = threading.Event()
        self.over = threading.Event()  # set when all its reports have been read, since it has ended
        self.final: str | None = None
        self.broken = ""  # why no worker of this slot can do its work

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a command. A worker that is gone already is left to `WorkerPool.tend`."""
        stdin = self.popen.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return

    def take(self, message: Mapping[str, Any], note: Callable[[str], None]) -> None:
        """Take in one report."""
        self.counts = self.counts._replace(**message.get("counts", {}))
        self.process = message.get("process", self.process)
        self.final = message.get("final", self.final)
        self.broken = message.get("broken", self.broken)
        if "ready" in message:
            self.ready.set()
        if "done" in message:
            self.done.set()
        if "note" in message:
            note(message["note"])


def unfinished(worker: Worker, within_s: float) -> str:
    """Wait until a worker has done its work, or has ended, but no longer than `within_s`; returns why it has not, or is empty."""
    deadline = time.monotonic() + within_s
    over = False
    while not worker.done.wait(0.05):
        if over:  # since before the wait: all its reports have been read
            return worker.broken or f"it is gone (exit {worker.popen.wait()})"
        if time.monotonic() > deadline:
            return f"it was not done within {within_s:.0f} s"
        over = worker.over.is_set()
    return ""


def end(worker: Worker) -> None:
    """Kill a worker, so that it writes no more."""
    worker.popen.kill()
    worker.popen.wait()


def _demand_sound(worker: Worker) -> None:
    """Raise ClusterError when a worker has reported that its slot's work cannot be done."""
    if worker.broken:
        raise ClusterError(f"worker {worker.slot}: {worker.broken}")


class WorkerPool:
    """Keeps one worker alive per slot.

    note: takes what went wrong, in words.
    announce: gets the places of workers that are about to be started.
    reads: directories that workers need to see (`Cluster.spawn`).
    """

    def __init__(
        self,
        cluster: Cluster,
        run_dir: Path,
        slots: int,
        note: Callable[[str], None],
        announce: Callable[[Sequence[Place]], None] = lambda _: None,
        reads: Sequence[str] = (),
    ) -> None:
        self._cluster, self._run_dir, self._slots, self._note = cluster, run_dir, slots, note
        self._announce, self._reads = announce, reads
        self._workers: dict[int, Worker] = {}
        self._past: dict[int, SlotCounts] = {}  # of the workers that a slot had before
        self._go: Mapping[str, Any] | None = None
        self._stopped, self._retired, self._closing = set[int](), set[int](), set[int]()
        self.replaced = 0
        self.programs: ImagePrograms | None = None  # runs what the instances run, where that is an image
        self.operate: Callable[[int, Mapping[str, Any]], Mapping[str, Any]] | None = None  # answers what workers ask for

    def start(self, slots: Sequence[int], timeout_s: float = 90.0) -> None:
        """Start these slots' workers and wait until every client is open. Raises ClusterError with what is missing."""
        self._announce([(slot, 0) for slot in slots])
        for slot in slots:
            self._workers[slot] = self._spawn(slot, slot, 0)
        deadline = time.monotonic() + timeout_s
        for worker in self._workers.values():
            while not worker.ready.wait(0.1):
                over = worker.over.is_set()
                _demand_sound(worker)
                if over and worker.popen.poll() is not None:
                    self._failed(worker, f"ended at its start (exit {worker.popen.returncode})")
                if time.monotonic() > deadline:
                    self._failed(worker, f"could not open its client within {timeout_s:.0f} s")

    def launch(self, slots: Sequence[int], orders: Mapping[str, Any]) -> list[Worker]:
        """Start workers that get their orders at once (the final readers); the caller waits for their `done`."""
        self._announce([(slot, 0) for slot in slots])
        workers = [self._spawn(slot, slot, 0) for slot in slots]
        for worker in workers:
            worker.send({"go": orders[str(worker.slot)]})
        return workers

    def go(self, orders: Mapping[str, Any]) -> None:
        """Let all workers begin."""
        self._go = orders
        for worker in self._workers.values():
            worker.send({"go": orders})

    def tend(self) -> None:
        """Replace what has died, until `stop`. Its open operation stays unknown; the new one gets a new process number."""
        states = self._cluster.instances() if isinstance(self._cluster, Scalable) else {}
        for slot, worker in list(self._workers.items()):
            over = worker.over.is_set()  # before what it said last is looked at
            _demand_sound(worker)
            if not states.get(f"c{slot}", True) or slot in self._retired:
                self._tend_retired(worker, states.get(f"c{slot}", True))
                continue
            if not over or worker.popen.poll() is None or worker.done.is_set() or slot in self._stopped:
                continue  # a slot that was stopped: whoever ends now was asked to, and nothing may be written any more
            self.replaced += 1
            self._note(f"worker {slot} is gone (exit {worker.popen.returncode}); replaced")
            self._begin(slot, worker)
        for slot in (int(node[1:]) for node, runs in states.items() if runs):
            if slot not in self._workers and not self._stopped:
                self._begin(slot)

    def _begin(self, slot: int, before: Worker | None = None) -> None:
        """Start a worker in the place of another one, or the first one of a slot."""
        process, incarnation = (before.process + self._slots, before.incarnation + 1) if before else (slot, 0)
        if before:
            self._past[slot] = self._past.get(slot, SlotCounts()).plus(before.counts)
        self._announce([(slot, incarnation)])
        self._workers[slot] = fresh = self._spawn(slot, process, incarnation)
        if self._go is not None:
            fresh.send({"go": self._go})
        if slot in self._closing:
            fresh.send({"closing": True})

    def _tend_retired(self, worker: Worker, recalled: bool) -> None:
        """Ask a worker to end that is not to run any more; start one again in its place when it has ended and is recalled."""
        if worker.slot not in self._retired:
            self._retired.add(worker.slot)
            worker.send({"stop": True})
        elif recalled and worker.popen.poll() is not None and worker.slot not in self._stopped:
            self._retired.discard(worker.slot)
            self._begin(worker.slot, worker)

    def running(self, slots: Collection[int]) -> list[int]:
        """The slots, of those given, whose worker lives and is not retired."""
        return sorted(
            slot
            for slot, worker in self._workers.items()
            if slot in slots and slot not in self._retired and worker.popen.poll() is None
        )

    def counts(self) -> dict[str, int]:
        """Operations completed so far, by outcome."""
        every = self.slot_counts().values()
        return {name: sum(getattr(counts, name) for counts in every) for name in COUNTED}

    def slot_counts(self) -> dict[int, SlotCounts]:
        """Operations completed so far, by slot."""
        return {slot: self._past.get(slot, SlotCounts()).plus(worker.counts) for slot, worker in self._workers.items()}

    def close_down(self, slots: Collection[int]) -> None:
        """Tell the workers of some slots, which go on, that the workload is over (`Operation.closing`)."""
        self._closing.update(slots)
        for slot in slots:
            if slot in self._workers:
                self._workers[slot].send({"closing": True})

    def stop(self, timeout_s: float, slots: Collection[int] | None = None) -> None:
        """Ask the workers (of some slots) to end after their present operation; kill what has not by then (its operation stays
        unknown).

        They are not replaced afterwards: the final read begins, and a worker that still writes would look like losses.
        """
        stopping = [worker for slot, worker in self._workers.items() if slots is None or slot in slots]
        self._stopped.update(worker.slot for worker in stopping)
        for worker in stopping:
            worker.send({"stop": True})
        deadline = time.monotonic() + timeout_s
        for worker in stopping:
            try:
                worker.popen.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._note(f"worker {worker.slot} did not end within {timeout_s:.0f} s and is killed; its operation is unknown")
                end(worker)

    def _spawn(self, slot: int, process: int, incarnation: int) -> Worker:
        node = f"c{slot}"
        second = second_of(self._cluster)
        argv = module_command("fencepost.harness.perform.worker", str(self._run_dir), str(slot), str(process), str(incarnation))
        env = {
            **os.environ,
            "FENCEPOST_BOOTSTRAP": self._cluster.bootstrap(),
            "FENCEPOST_SECOND_BOOTSTRAP": second.bootstrap() if second else "",
            "FENCEPOST_CONNECTION": json.dumps(dict(self._cluster.connection())),
            "FENCEPOST_NODE": node,
            "FENCEPOST_SUPPORT": self._setting(node, "support"),
            "FENCEPOST_VERSION": self._setting(node, "version"),
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with log_file(self._run_dir, f"{RunFile.LOGS}/{node}/stderr.log") as stderr:
            popen = self._cluster.spawn(node, argv, reads=self._reads, **pipes, stderr=stderr, env=env)
        worker = Worker(slot, process, incarnation, popen)
        assert popen.stdout is not None
        threading.Thread(target=self._listen, args=(worker, popen.stdout), daemon=True).start()
        return worker

    def _setting(self, node: str, name: str) -> str:
        """A setting of an instance for its next life; empty where it has none."""
        return self._cluster.setting(node, name) if isinstance(self._cluster, Scalable) else ""

    def _listen(self, worker: Worker, stdout: IO[bytes]) -> None:
        try:
            self._take_reports(worker, stdout)
        finally:
            worker.over.set()

    def _take_reports(self, worker: Worker, stdout: IO[bytes]) -> None:
        for line in whole_lines(stdout):
            message = json.loads(line)
            worker.take(message, self._note)
            if "program" in message and self.programs is not None:
                send = partial(self._of_program, worker)
                threading.Thread(target=self.programs.take, args=(worker.slot, message["program"], send), daemon=True).start()
            if "operate" in message:
                threading.Thread(target=self._operate, args=(worker, message["operate"]), daemon=True).start()

    def _of_program(self, worker: Worker, message: Mapping[str, Any]) -> None:
        worker.send({"program": message})

    def _operate(self, worker: Worker, request: Mapping[str, Any]) -> None:
        """Have a worker's request carried out, which may take a while, and answer it."""
        nothing: Mapping[str, Any] = {"number": request["number"], "done": False}
        worker.send({"operated": self.operate(worker.slot, request) if self.operate else nothing})

    def _failed(self, worker: Worker, what: str) -> NoReturn:
        log = self._run_dir / "logs" / f"c{worker.slot}" / "stderr.log"
        raise ClusterError(f"worker {worker.slot} {what}: {last_words(log, 3)} ({log})")
