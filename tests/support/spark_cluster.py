"""A standalone Spark cluster: a master and a worker with two executors, from PySpark's own jars; and drivers that judge on it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from fencepost.checkers.engine.class_archive import archive_options
from fencepost.checkers.engine.session import JAVA
from support.ports import free_port

HOME = Path(pyspark.__file__).parent
OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util", "sun.nio.ch")
DRIVER = Path(__file__).with_name("spark_cluster_driver.py")
START_S, PATIENCE_S = 90.0, 300.0


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The address of a standalone master with a registered worker, which has room for two executors of a core each."""
    port = free_port()
    address, main = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    listens = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    running = [_daemon(folder, "master", f"{main}.master.Master", *listens)]
    try:
        _wait_for("I have been elected leader", folder / "master.log", running[0])
        sizes = ("--host", "127.0.0.1", "--cores", "2", "--memory", "2400m", "--webui-port", "0")
        running.append(_daemon(folder, "worker", f"{main}.worker.Worker", *sizes, address))
        _wait_for("Successfully registered with master", folder / "worker.log", running[1])
        yield address
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(timeout=30)


class Driver:
    """A session on a cluster, in a process of its own, that judges one folder after the other."""

    def __init__(self, master: str, log: Path, *conf: str) -> None:
        """conf: `KEY=VALUE`, over our own settings. What it says goes to `log`.

        Workers are started as `python` beside it, which leaves a file `used` there.
        """
        self.master, self._log, self.used = master, log, log.with_name("used")
        python = log.with_name("python")
        python.write_text(f'#!/bin/sh\n: > "{self.used}"\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        executors = ("spark.executor.cores=1", f"spark.executor.extraJavaOptions={JAVA} {_class_archive()}")
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), master, *executors, *conf],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)},
            start_new_session=True,
        )

    def judge(self, folder: Path, short: bool = True, ends: str = "", times: int = 0) -> Any:
        """The verdict on a run.

        short: a short history is scanned by the driver; else by the executors, as a long one is.
        ends: the process that a check ends: a `worker` (Python's) or an `executor`.
        times: how often it does.
        """
        request = {"folder": str(folder), "short": short, "ends": ends, "times": times}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], PATIENCE_S)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise AssertionError(f"no verdict within {PATIENCE_S} s; its last words: {self._last_words()}")
        assert self._process.stdout.readline() == b"judged\n", self._last_words()
        return json.loads((folder / "verdict.json").read_text())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _last_words(self) -> str:
        return self._log.read_text()[-3000:]


def _class_archive() -> str:
    """Options by which a JVM maps the classes that a local session has archived; none where there is no archive yet."""
    options = archive_options()
    return options if "SharedArchiveFile" in options else ""


def _daemon(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A JVM of Spark's own, its output in a file."""
    java = shutil.which("java", path=os.environ.get("JAVA_HOME", "") + "/bin:" + os.environ["PATH"])
    assert java
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    classpath = f"{HOME}/conf:{HOME}/jars/*"  # as that of a driver, so that the archive fits
    command = [java, "-Xmx256m", *JAVA.split(), *_class_archive().split(), *opened, "-cp", classpath, *arguments]
    env = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
    }
    with (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=folder)


def _wait_for(words: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while words not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"waited for {words!r}; the last that {log.name} says: {log.read_text()[-2000:]}")
        time.sleep(0.2)
