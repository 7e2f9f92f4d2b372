"""Starts a watcher, connects to it, and cleans up after it, whichever process dies.

There are two processes: the watcher, which removes all that the run has on this host when it ends, and its guard, which does so
when the watcher is killed. When the guard is killed, the watcher ends. When both are killed at once, or the host fails, the next
run on this host cleans up.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.clusters.ssh.remote import disk_mounts, host_rules
from fencepost.clusters.ssh.remote.watcher import DATA, RUN_VARIABLE, SOCKET, Watcher, remove_clock_state
from fencepost.harness.system import processes

SETTINGS, LOCK, OUTPUT = "settings.json", "lock", "watcher.log"
NO_WATCHER = 3  # exit status of a bridge that found no watcher
_END_S = 20.0


def launch(run: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Start a watcher that outlives this process; its first message: `error`, or `rules_trouble` (why it drops no packets)."""
    run.parent.mkdir(parents=True, exist_ok=True)
    with open(run.parent / ".lock", "w") as gate:  # no sweep between the making of a run's directory and its lock
        fcntl.flock(gate, fcntl.LOCK_EX)
        sweep(run.parent)
        run.mkdir()
        (run / SETTINGS).write_text(json.dumps(settings))
        lock = open(run / LOCK, "w")  # noqa: SIM115 - held by guard and watcher until the last of them ends
        fcntl.flock(lock, fcntl.LOCK_EX)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        _detach(run)
        _guard(run, settings, writing)
    os.close(writing)
    lock.close()
    with os.fdopen(reading) as pipe:
        message = pipe.read()
    return json.loads(message) if message else {"error": f"the watcher died at its start; {_last_output(run)}"}


def _detach(run: Path) -> None:
    """Leave session, terminal and standard streams of the connection that started us."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir(run)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, OUTPUT, os.O_WRONLY | os.O_CREAT), (2, OUTPUT, os.O_WRONLY)):
        os.dup2(os.open(path, flags | (os.O_APPEND if number else 0), 0o600), number)


def _guard(run: Path, settings: dict[str, Any], writing: int) -> None:
    """Run as the guard; never returns."""
    try:
        child = os.fork()
        if child == 0:
            _watch(run, settings, writing)
        os.close(writing)
        os.waitpid(child, 0)
        clean_up(run, settings)
    finally:
        os._exit(0)


def _watch(run: Path, settings: dict[str, Any], writing: int) -> None:
    """Run as the watcher; never returns."""
    try:
        with os.fdopen(writing, "w") as pipe:
            try:
                watcher = Watcher(run, settings)
            except OSError as error:
                pipe.write(json.dumps({"error": f"{settings['address']}, ports {settings['port']} and up: {error}"}))
                return
            pipe.write(json.dumps({"rules_trouble": watcher.rules_trouble}))
        watcher.serve()
        watcher.undo()
        clean_up(run, settings)
    finally:
        sys.stderr.flush()
        os._exit(0)


def clean_up(run: Path, settings: dict[str, Any]) -> None:
    """Remove the run's rules, what it started, its disk and its directory, and at last bridges whose connection hangs."""
    host_rules.close_all(settings["token"], settings["sudo"])
    _kill_all("environ", f"{RUN_VARIABLE}={run}")
    remove_clock_state(run)
    disk_mounts.unmount(run / DATA, settings["sudo"])
    shutil.rmtree(run, ignore_errors=True)
    _kill_all("cmdline", f"bridge\0{run}")


def _kill_all(file: str, text: str) -> None:
    """Kill every process whose file of this name in /proc contains this text."""
    deadline = time.monotonic() + _END_S
    while (pids := _processes(file, os.fsencode(f"\0{text}\0"))) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _processes(file: str, wanted: bytes) -> list[int]:
    pids = []
    for pid in processes.process_ids():
        with suppress(OSError):
            if wanted in b"\0" + processes.content(pid, file):
                pids.append(pid)
    return pids


def sweep(runs: Path) -> None:
    """Clean up after runs whose guard and watcher are gone; the caller holds the lock of the directory."""
    for lock in runs.glob(f"*/{LOCK}"):
        with open(lock) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            clean_up(lock.parent, json.loads((lock.parent / SETTINGS).read_text()))


def _last_output(run: Path) -> str:
    with suppress(OSError):
        return " / ".join((run / OUTPUT).read_text(errors="replace").split("\n")[-4:])
    return "it wrote nothing"


def bridge(run: Path) -> None:
    """Connect our standard streams with the watcher's socket until either side ends. Exits with NO_WATCHER when there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.chdir(run)
        connection.connect(SOCKET)
    except OSError as error:
        sys.stderr.write(f"{run}: {error.strerror}\n")
        sys.exit(NO_WATCHER)
    while True:
        waited: list[Any] = [0, connection]
        ready, _, _ = select.select(waited, [], [])
        if 0 in ready:
            requests = os.read(0, 1 << 16)
            if not requests:
                return
            connection.sendall(requests)
        if connection in ready:
            answers = connection.recv(1 << 16)
            if not answers:
                return
            os.write(1, answers)
