"""The commands of the program on a host.

inspect JAVA           print the host's versions as JSON         serve RUN     start the watcher of a run (settings on stdin)
missing DIRECTORY      print which jars are missing              bridge RUN    connect stdin and stdout to the watcher
receive DIRECTORY      store jars, each checked                  pack RUN      write the log segments as a tar
unpack RUN             store a run's files                       delay RUN     delay packets, for the watcher
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fencepost.clusters.fault_tools.delay_program import DelayProgram
from fencepost.clusters.ssh.remote import file_transfer, watcher_process


def main(argv: list[str]) -> int:
    """Run the command `argv[0]` with its argument `argv[1]`."""
    os.umask(0o077)
    commands[argv[0]](argv[1])
    return 0


def inspect(java: str) -> None:
    """Print the versions of kernel and interpreter, the user id, and the output of `java -version`."""
    try:
        done = subprocess.run([java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        java_version = done.stderr + done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        java_version = str(error)
    versions = {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({**versions, "uid": os.getuid(), "java": java_version}))  # noqa: T201 - the answer to the caller


def missing(directory: str) -> None:
    jars = json.loads(sys.stdin.buffer.read())
    print(json.dumps(file_transfer.missing(Path(directory), jars)))  # noqa: T201


def receive(directory: str) -> None:
    file_transfer.receive(sys.stdin.buffer, Path(directory))


def unpack(run: str) -> None:
    file_transfer.unpack(sys.stdin.buffer, Path(run))


def pack(run: str) -> None:
    file_transfer.pack(Path(run, "data"), sys.stdout.buffer)


def serve(run: str) -> None:
    print(json.dumps(watcher_process.launch(Path(run), json.loads(sys.stdin.buffer.read()))))  # noqa: T201


def delay(run: str) -> None:
    DelayProgram(json.loads(Path(run, watcher_process.SETTINGS).read_text())["port"]).serve()


def bridge(run: str) -> None:
    watcher_process.bridge(Path(run))


commands: dict[str, Callable[[str], None]] = {
    "inspect": inspect,
    "missing": missing,
    "receive": receive,
    "unpack": unpack,
    "pack": pack,
    "serve": serve,
    "delay": delay,
    "bridge": bridge,
}
