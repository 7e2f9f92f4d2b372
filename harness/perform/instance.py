"""One instance: a worker whose child is a program of somebody's own, or a worker of Connect, started again whenever it ends.

Worker and program are one process group, so that they are killed and frozen together. What the program writes to its standard
output and error is in `logs/cN/application.log`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from fencepost.harness import secrets
from fencepost.harness.api import OWN_GROUP, ConnectWorker, Outcome, Program, own_group, service_addresses
from fencepost.harness.api.beneath import log_file, reading
from fencepost.harness.api.run import RunFile
from fencepost.harness.connect.worker import prepare, serves
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.remote_program import RemoteProgram
from fencepost.harness.perform.worker_commands import Report
from fencepost.harness.system.parent_death import die_with

LOG = "application.log"
STARTED_S = 2.0  # a program that has lived for so long has started
SHORT_S = 5.0  # a life shorter than this is one of those that may mean that the program cannot work at all
MOST_SHORT = 4
PAUSE_S = 1.0  # before it is started again
END_S = 15.0  # from SIGTERM to SIGKILL
SHOWN_LINES, SHOWN_BYTES = 3, 4096
_FRAME = re.compile(r"\s+(at \S+\(|\.\.\. \d+ more)")  # of a stack trace of Java's


class Control(Protocol):
    """The part of a worker's control that an instance needs."""

    on_program: Any  # takes what the harness says of a program in an image

    @property
    def stop(self) -> Any: ...


class Child(Protocol):
    """A started program: what is used of `subprocess.Popen`."""

    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def group_of(plan: Mapping[str, Any], program: Program) -> str:
    """The consumer group of a program; empty when it is not known."""
    return own_group(plan["prefix"]) if program.group == OWN_GROUP else program.group


def topic_of(plan: Mapping[str, Any], name: str) -> str:
    """A topic of the workload by its name in the cluster, which may begin with the run's prefix."""
    return name if name in plan["topics"] else str(plan["prefix"]) + name


def directory_of(run_dir: Path, slot: int) -> Path:
    """The directory of an instance, kept from one life to the next and removed at its end."""
    return run_dir.resolve() / "data" / f"c{slot}"


def store_of(run_dir: Path) -> Path:
    """The directory for the store of a sink, which its instances share and which is there until the end of the run."""
    return run_dir.resolve() / "data" / "store"


def environment(plan: Mapping[str, Any], program: Program, slot: int, directory: Path) -> dict[str, str]:
    """The environment of an instance (docs/your-application.md)."""
    connection = secrets.resolve(plan.get("connection", {}))
    output = "FENCEPOST_STORE" if program.store else "FENCEPOST_OUTPUT"
    return {
        **secrets.environment_without_secrets(),
        "FENCEPOST_BOOTSTRAP": plan["bootstrap"],
        "FENCEPOST_CONNECTION": json.dumps(connection),
        "FENCEPOST_INPUT": topic_of(plan, program.input),
        output: str(store_of(directory.parents[1])) if program.store else topic_of(plan, program.output),
        "FENCEPOST_GROUP": group_of(plan, program) or own_group(plan["prefix"]),
        "FENCEPOST_INSTANCE": str(slot),
        "FENCEPOST_DIRECTORY": str(directory),
        "FENCEPOST_TRANSACTIONAL_ID": f"{plan['prefix']}{slot}",
        **service_addresses.variables(service_addresses.services_of(plan)),
    }


@dataclass(frozen=True)
class Launch:
    """The start of an instance.

    command: makes its words for each life; raises OSError when there are none.
    environment: all of its variables.
    image: of a container in which it runs; empty: it is a process here.
    name: in the history.
    title: in a sentence.
    answers: true once it does its work; called when it has lived for `STARTED_S`.
    """

    command: Callable[[], Sequence[str]]
    environment: Mapping[str, str]
    image: str = ""
    name: str = ""
    title: str = ""
    answers: Callable[[], bool] = lambda: True

    @classmethod
    def of_program(cls, plan: Mapping[str, Any], program: Program, slot: int, directory: Path) -> Launch:
        """A program of somebody's own."""
        title = f"the command {' '.join(program.command)}" if program.command else f"the image {program.image}"
        name = program.image or program.command[0]
        return cls(lambda: program.command, environment(plan, program, slot, directory), program.image, name, title)

    @classmethod
    def of_connect(cls, plan: Mapping[str, Any], worker: ConnectWorker, slot: int, directory: Path) -> Launch:
        """A worker of Connect, whose jars the plan names."""
        title = f"the worker of Kafka Connect {worker.version}"
        connection = secrets.resolve(plan.get("connection", {}))
        return cls(
            lambda: prepare(worker, plan, connection, slot, directory),
            secrets.environment_without_secrets(),
            name=f"connect {worker.version}",
            title=title,
            answers=lambda: serves(directory),
        )


class Instance:
    """Runs a program, as one operation `instance` for each of its lives."""

    def __init__(
        self,
        launch: Launch,
        places: tuple[int, int],
        writer: HistoryWriter,
        control: Control,
        report: Report,
        run_dir: Path,
    ) -> None:
        self._launch, (self._slot, self._process) = launch, places
        self._directory = directory_of(run_dir, self._slot)
        self._run_dir, self._log = run_dir, f"{RunFile.LOGS}/c{self._slot}/{LOG}"
        self._writer, self._control, self._report = writer, control, report
        self._remote = RemoteProgram(report) if launch.image else None
        if self._remote is not None:
            control.on_program = self._remote.answered
        self._ready = False
        self._short = 0  # how many lives in a row were short

    def run(self) -> None:
        """Start the program again whenever it ends, until the stop, or until it has ended at once too often."""
        if leads_group():
            signal.signal(signal.SIGTERM, lambda *_: None)  # meant for the program; a handler is not inherited, ignoring is
        self._directory.mkdir(parents=True, exist_ok=True)
        self._writer.process(
            self._process,
            isolation=None,
            final=False,
            transactional_id=None,
            client=self._launch.name,
        )
        self._report({"process": self._process})
        number = 0
        while not self._control.stop.is_set():
            self._writer.invoke(self._process, number, "instance", {})
            value = self._life()
            self._writer.complete(Outcome.OK, self._process, number, "instance", value, errors=[])
            number += 1
            if self._short >= MOST_SHORT:
                self._report({"broken": f"{self._launch.title} ends at once again and again: {value['ending']}"})
                return
            self._control.stop.wait(PAUSE_S)

    def _life(self) -> dict[str, Any]:
        """One life of the program: its ending in words, and how long it lasted (s)."""
        began = time.monotonic()
        with log_file(self._run_dir, self._log) as log:
            child = self._start(log)
            if isinstance(child, str):
                self._short = MOST_SHORT
                return {"ending": child, "lasted_s": 0.0}
            stopped = self._watch(child, began)
        lasted_s = time.monotonic() - began
        self._short = 0 if lasted_s >= SHORT_S or stopped else self._short + 1
        status = child.returncode if child.returncode is not None else -signal.SIGKILL
        ending = f"exit {status}" if status >= 0 else f"signal {-status}"
        if not stopped:
            ending = f"{ending}{self._last_lines()}"
            self._report({"note": f"instance c{self._slot} ended ({ending}); started again"})
        return {"ending": ending, "lasted_s": round(lasted_s, 3)}

    def _start(self, log: IO[bytes]) -> Child | str:
        """Start the program; returns it, or why it cannot be started."""
        if self._remote is not None:
            problem = self._remote.start(self._launch.environment)
            return f"the image {self._launch.image} cannot be started: {problem}" if problem else self._remote
        try:
            return subprocess.Popen(
                list(self._launch.command()),
                env=self._launch.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with(os.getpid()),
            )
        except OSError as error:
            return f"{self._launch.name} cannot be started: {error.strerror}"

    def _watch(self, child: Child, began: float) -> bool:
        """Wait for its end; returns whether it was the harness that ended it."""
        while child.poll() is None:
            if not self._ready and time.monotonic() - began > STARTED_S and self._launch.answers():
                self._ready = True
                self._report({"ready": True})
            if self._control.stop.wait(0.1):
                self._end(child)
                return True
        return False

    def _end(self, child: Child) -> None:
        """Ask the program, and all that it has started, to end; kill it when it does not."""
        if isinstance(child, subprocess.Popen):
            send_to_group(signal.SIGTERM, child)
        else:
            child.terminate()
        try:
            child.wait(END_S)
        except subprocess.TimeoutExpired:
            self._report({"note": f"instance c{self._slot} did not end within {END_S:.0f} s of SIGTERM, and is killed"})
            child.kill()
            child.wait()

    def _last_lines(self) -> str:
        """The end of its log, to be put after how it ended."""
        with reading(self._run_dir, self._log) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - SHOWN_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        lines = [line.strip() for line in lines if not _FRAME.match(line)][-SHOWN_LINES:]
        return secrets.mask(f": {' / '.join(lines)} ({self._run_dir / self._log})") if lines else ", and it wrote nothing"


def leads_group() -> bool:
    """True if this worker and its program are a process group of their own."""
    return os.getpgrp() == os.getpid()


def send_to_group(number: signal.Signals, child: subprocess.Popen[bytes]) -> None:
    """Send a signal to the process group of this worker, which is the instance; without a group of its own, to the program."""
    if leads_group():
        os.killpg(os.getpgrp(), number)
    else:
        child.send_signal(number)


def end_group() -> None:
    """Kill what the program has left behind, and this worker with it."""
    if leads_group():
        with suppress(ProcessLookupError):
            os.killpg(os.getpgrp(), signal.SIGKILL)
