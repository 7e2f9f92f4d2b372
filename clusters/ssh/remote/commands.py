"""What runs on a host: standard library only, Python 3.9 or newer, carried there as one zip file.

inspect JAVA           what the host is, as JSON             serve RUN     (settings on stdin) become the watcher of a run
have DIRECTORY         which jars are missing                bridge RUN    talk to the watcher
receive DIRECTORY      take jars, each checked               pack RUN      the log segments, as a tar
unpack RUN             take a run's files            hold RUN      hold its packets back, for the watcher
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from clusters.fault_tools.delay_program import DelayProgram
from clusters.ssh.remote import file_transfer, watcher_process


def main(argv: list[str]) -> int:
    """Do what the first word says to what the second names."""
    os.umask(0o077)
    commands[argv[0]](argv[1])
    return 0


def inspect(java: str) -> None:
    """Tell the kernel, the interpreter, who we are, and what `java -version` says."""
    try:
        done = subprocess.run([java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        said = done.stderr + done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    seen = {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({**seen, "uid": os.getuid(), "java": said}))  # noqa: T201 - the answer to who called us


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
