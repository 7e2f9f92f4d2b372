"""The first process of a sandbox: `python -m fencepost.clusters.local.init [--namespaces] [--grace=SECONDS] -- argv...`.

It runs one child, reaps orphans, and forwards SIGINT and SIGTERM. Its stdin is the *lifeline*, a pipe from the harness
outside: lines that arrive are passed on to the child's stdin; its end means that the harness died, and then everything in
the sandbox is killed at once; with `--grace`, the child's stdin ends first, and it has so many seconds to clean up elsewhere.
A stdin that is no pipe is no lifeline, and the child reads /dev/null. When everything has ended, the directory that
FENCEPOST_SCRATCH names is removed, if there still is one.

As PID 1 of a namespace its own exit makes the kernel kill the rest. Without namespaces it is a subreaper (prctl(2)) and
kills its descendants itself.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from fencepost.harness.system.parent_death import KILLED, die_with, prctl
from fencepost.harness.system.processes import ZOMBIE, process_ids, status

NETWORK = "FENCEPOST_NETWORK"  # for the child, what the sandbox offers: "namespaces" or "loopback"
SCRATCH = "FENCEPOST_SCRATCH"  # names a directory that must not outlive the sandbox: the brokers' data

_PR_SET_CHILD_SUBREAPER = 36


def main(argv: Sequence[str]) -> int:
    """Run the child; its exit status, or 137 when the lifeline ended first."""
    options, command = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    namespaces = "--namespaces" in options
    grace_s = next((float(word.partition("=")[2]) for word in options if word.startswith("--grace=")), 0.0)
    if not namespaces:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    lifeline = 0 if stat.S_ISFIFO(os.fstat(0).st_mode) or stat.S_ISSOCK(os.fstat(0).st_mode) else None
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if lifeline is None else subprocess.PIPE,
        env={**os.environ, NETWORK: "namespaces" if namespaces else "loopback"},
        preexec_fn=die_with(os.getpid()),
        start_new_session=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    try:
        return _supervise(child, lifeline, grace_s)
    finally:
        if namespaces:
            _kill_namespace()
        else:
            kill_descendants()
        remove_scratch()


def remove_scratch() -> None:
    """Remove the data of a cluster that was killed before it could."""
    if scratch := os.environ.get(SCRATCH):
        shutil.rmtree(scratch, ignore_errors=True)


def _supervise(child: subprocess.Popen[bytes], lifeline: int | None, grace_s: float) -> int:
    """Reap and forward until the child has ended (its status), or the lifeline has and `grace_s` after it (137)."""
    deadline: float | None = None
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        status = _reap(child.pid)
        if status is not None:
            return status
        left_s = None if deadline is None else deadline - time.monotonic()
        if left_s is not None and left_s <= 0:
            return KILLED
        ready, _, _ = select.select([woken] if lifeline is None else [woken, lifeline], [], [], left_s)
        if woken in ready:
            os.read(woken, 512)
        if lifeline in ready:
            line = os.read(0, 65536)
            if line:
                _pass_on(child, line)
            else:
                _hang_up(child)
                lifeline, deadline = None, time.monotonic() + grace_s


def _pass_on(child: subprocess.Popen[bytes], line: bytes) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(line)
        child.stdin.flush()
    except BrokenPipeError:
        return  # the child no longer listens; `_reap` sees its end


def _hang_up(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # it no longer listens
        child.stdin.close()


def _reap(child: int) -> int | None:
    """Reap whatever ended; the exit status of `child` if it was among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def kill_descendants() -> None:
    """SIGKILL every descendant of this process, frozen ones too, until none is left."""
    while True:
        doomed = descendants(os.getpid())
        if not doomed:
            return
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap(-1)


def _kill_namespace() -> None:
    """Kill all processes as the first process of a namespace, whose orphans are all ours."""
    if os.getpid() != 1:
        return
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def descendants(root: int) -> list[int]:
    """NodeProcess ids of the children of `root`, their children, and so on (zombies that others must reap excluded)."""
    children: dict[int, list[int]] = {}
    for pid in process_ids():
        seen = status(pid)
        if seen and (seen.state != ZOMBIE or seen.parent == root):
            children.setdefault(seen.parent, []).append(pid)
    pids, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        pids += below
        todo += below
    return pids


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
