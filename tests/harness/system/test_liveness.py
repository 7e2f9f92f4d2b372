"""Liveness: by the kernel's lock on a directory, and by what is known of a process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from fencepost.harness.system import liveness

NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
HOLDER = """
import sys
from pathlib import Path
from fencepost.harness.system import liveness
held = liveness.hold(Path(sys.argv[1]))
print(liveness.identity(), flush=True)
sys.stdin.read()
"""
PARENT = """
import subprocess, sys
from pathlib import Path
from fencepost.harness.system import liveness
held = liveness.hold(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], pass_fds=(held.descriptor,), stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def started():
    """Starts a program with a directory; its first line."""
    processes = []

    def start(*prefix, program=HOLDER, directory):
        argv = [*prefix, sys.executable, "-c", program, str(directory)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def user(directory):
    with liveness.exclusive(directory) as holder:
        return holder


def test_a_directory_is_in_use_until_the_last_of_its_users_is_killed(tmp_path, started):
    first, _ = started(directory=tmp_path)
    second, _ = started(directory=tmp_path)
    assert f"process {first.pid} on {socket.gethostname()}" in user(tmp_path)
    first.kill()
    first.wait()
    assert f"process {first.pid} " not in user(tmp_path)
    assert f"process {second.pid} " in user(tmp_path)
    second.kill()
    second.wait()
    assert user(tmp_path) == ""


def test_a_user_in_another_pid_namespace_is_seen_as_any_other(tmp_path, started):
    """Its process id is 1 there; ours of that number is another process."""
    process, identity = started(*NAMESPACE, directory=tmp_path)
    assert identity.split(" ")[3] == "1"
    assert liveness.alive(identity) is None
    assert "process 1 on" in user(tmp_path)
    process.stdin.close()
    process.wait()
    assert user(tmp_path) == ""


def test_a_child_that_has_inherited_the_lock_holds_it_when_its_parent_is_killed(tmp_path, started):
    process, child = started(program=PARENT, directory=tmp_path)
    process.kill()
    process.wait()
    assert user(tmp_path) == "the sandbox of a process that has died, which is ending"
    os.kill(int(child), 9)
    deadline = time.monotonic() + 60
    while user(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert user(tmp_path) == ""


def test_no_process_can_begin_to_use_a_directory_that_is_being_removed(tmp_path, monkeypatch):
    directory = tmp_path / "run"
    directory.mkdir()
    monkeypatch.setattr(liveness, "_WAIT_S", 0.1)
    with liveness.exclusive(directory) as holder:
        assert holder == ""
        assert liveness.hold(directory).descriptor is None
    with liveness.hold(directory) as held:
        assert held.descriptor is not None
        assert user(directory)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/passwd", path)])
def test_what_is_no_lock_counts_as_in_use_and_stops_no_process(tmp_path, make):
    make(tmp_path / liveness.LOCK)
    assert user(tmp_path).startswith("unknown: it cannot be locked")
    assert liveness.hold(tmp_path).descriptor is None


def test_a_process_is_dead_only_if_that_is_sure():
    """The same number of another time or boot is another process; of another machine or PID namespace nothing is known."""
    host, boot, namespace, pid, began = liveness.identity().split(" ")
    assert liveness.alive(liveness.identity()) is True
    assert liveness.alive(f"{host} {boot} {namespace} {pid} {int(began) - 1}") is False
    assert liveness.alive(f"{host} another-boot {namespace} {pid} {began}") is False
    assert liveness.alive(f"{host} {boot} {namespace} {1 << 22} {began}") is False
    assert liveness.alive(f"{host} {boot} 4026500000 {1 << 22} {began}") is None
    assert liveness.alive(f"elsewhere another-boot {namespace} {pid} {began}") is None
    assert liveness.alive(f"{host} {boot} {pid} {began}") is None
    assert liveness.alive("") is None


def test_what_processes_share_lies_where_no_other_user_can_write(tmp_path, monkeypatch):
    """Not in a directory that somebody made before us, nor behind a link."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ours = tmp_path / f"fencepost-{os.getuid()}"
    assert liveness.runtime_directory() == liveness.runtime_directory() == ours
    assert ours.stat().st_mode & 0o777 == 0o700
    ours.chmod(0o770)
    with pytest.raises(PermissionError, match="not a directory of ours alone"):
        liveness.runtime_directory()
    ours.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    ours.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="not a directory of ours alone"):
        liveness.runtime_directory()


def test_a_temporary_directory_is_ours_alone_in_use_and_gone_at_the_end(tmp_path):
    with liveness.temporary_directory("warm", tmp_path) as path:
        assert path.stat().st_mode & 0o777 == 0o700
        assert user(path)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_tried_by_its_reference_and_what_is_not_that_lock_is_unknown(tmp_path):
    """No process holds it: no reference. Another directory at the same path is not the one that was meant."""
    assert liveness.lock_reference(tmp_path) == ""
    with liveness.hold(tmp_path):
        reference = liveness.lock_reference(tmp_path)
        assert liveness.user_of_lock(reference).endswith(")")
    assert liveness.user_of_lock(reference) == ""
    (tmp_path / ".lock").rename(tmp_path / "before")
    assert liveness.user_of_lock(reference) is None
    liveness.hold(tmp_path).close()
    assert liveness.user_of_lock(reference) is None
    assert [liveness.user_of_lock(text) for text in ("", "1:2", "1:2:/nowhere", "x")] == [None] * 4


def test_a_process_that_leaves_at_once_can_remove_all_that_it_has_in_temporary_directories(tmp_path):
    places = [liveness.TemporaryPlace("test", tmp_path) for _ in range(3)]
    (places[0].path / "inside").mkdir()
    places[2].remove()
    assert len(list(tmp_path.iterdir())) == 2
    liveness.remove_temporary_places()
    assert list(tmp_path.iterdir()) == []


def test_a_place_is_removed_while_a_thread_writes_into_it(tmp_path, monkeypatch):
    place = liveness.TemporaryPlace("warm", tmp_path)
    (place.path / "early").touch()
    refused, rmtree = [], shutil.rmtree

    def late(path, **more):
        try:
            (place.path / "late").touch()
        except FileNotFoundError:
            refused.append(path)
        rmtree(path, **more)

    monkeypatch.setattr(liveness.shutil, "rmtree", late)
    place.remove()
    assert refused
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_needs_the_directory_to_start_does_not_outlive_it(tmp_path):
    """One that has started goes on; nothing is started when it is gone."""
    place, other = (liveness.TemporaryPlace("test", tmp_path) for _ in range(2))
    processes = [each.start(lambda: subprocess.Popen(["sleep", "60"])) for each in (place, other)]
    other.started()
    place.remove()
    other.remove()
    assert [process.poll() for process in processes] == [-signal.SIGKILL, None]
    with pytest.raises(InterruptedError):
        place.start(lambda: subprocess.Popen(["sleep", "60"]))
    processes[1].kill()
    processes[1].wait()


def test_a_thread_that_goes_on_makes_no_directory_when_its_process_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(liveness, "_ended", threading.Event())
    liveness.TemporaryPlace("test", tmp_path)
    liveness.end_temporary_places()
    with pytest.raises(InterruptedError):
        liveness.TemporaryPlace("test", tmp_path)
    assert list(tmp_path.iterdir()) == []
