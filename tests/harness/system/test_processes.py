"""Processes as /proc shows them."""

import os
import subprocess
import sys

from fencepost.harness.system import processes


def test_this_process_is_among_all_with_its_parent_and_its_words():
    found = processes.status(os.getpid())
    assert os.getpid() in processes.process_ids()
    assert (found.state in "RS", found.parent) == (True, os.getppid())
    assert processes.command_line(os.getpid()) == tuple(sys.orig_argv)


def test_a_dead_process_is_a_zombie_until_it_is_reaped_and_then_nothing():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.state(child.pid) == processes.ZOMBIE
    assert (processes.state(child.pid), processes.status(child.pid)) == ("", None)


def test_the_name_of_a_program_may_hold_anything(monkeypatch, tmp_path):
    """The second field of `stat` is the name in parentheses."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) S 1 2) R 3 " + " ".join(map(str, range(5, 30))))
    (tmp_path / "self").mkdir()
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert (processes.process_ids(), processes.status(7)) == ([7], processes.ProcessStatus("R", 3, "22"))


def test_without_proc_there_is_nobody(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "PROC", tmp_path / "proc")
    assert (processes.process_ids(), processes.state(1)) == ([], "")
