"""The sandbox's texts and its supervisor, without Kafka."""

import os
import signal
import subprocess
import sys

import pytest

from fencepost.clusters.local import Local, sandbox
from fencepost.harness.api import Partitionable
from fencepost.harness.system.python_command import module_command

PATIENCE_S = 120


@pytest.fixture
def another_machine(monkeypatch, tmp_path):
    """A directory that comes first in PATH; the trial is made anew, and its result is that of this test alone."""
    monkeypatch.setattr(sandbox, "namespace_support", sandbox.namespace_support.__wrapped__)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def sysctl(directory, name, value):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value + "\n")


def test_apparmors_restriction_is_reported_with_its_sysctl(tmp_path):
    """Ubuntu 24.04 forbids user namespaces through AppArmor."""
    sysctl(tmp_path, "kernel/apparmor_restrict_unprivileged_userns", "1")
    assert "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in sandbox.remedy(tmp_path)


def test_disabled_user_namespaces_are_reported_with_their_sysctl(tmp_path):
    """Hardened kernels set the maximum to zero."""
    sysctl(tmp_path, "user/max_user_namespaces", "0")
    assert "sudo sysctl -w user.max_user_namespaces=10000" in sandbox.remedy(tmp_path)


def test_without_a_known_cause_the_remedy_is_about_containers(tmp_path):
    """No switch is off; what is left is a container's seccomp profile."""
    assert "--privileged" in sandbox.remedy(tmp_path)


def test_without_unshare_the_reason_names_the_package(monkeypatch, another_machine):
    """Then only the supervisor goes before the command, and partitions are missing."""
    monkeypatch.setenv("PATH", str(another_machine))
    assert "install util-linux" in Local().missing()[Partitionable]
    assert sandbox.command(["x"]) == module_command("fencepost.clusters.local.init", "--", "x")


def test_the_error_of_the_trial_is_in_the_reason(another_machine):
    """The error of unshare stands in the reason."""
    refusing = another_machine / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    assert "unshare failed: Operation not permitted" in Local().missing()[Partitionable]


def test_with_loopback_the_reason_names_the_option():
    """No trial is made; the reason is the campaign's own."""
    assert "loopback = true" in Local(loopback=True).missing()[Partitionable]


@pytest.fixture(params=[False, True], ids=["namespaces", "supervisor alone"])
def alone(request):
    """Both kinds of sandbox; the first only where the machine offers it (else that very test fails)."""
    return request.param


def supervised(alone, *argv):
    return subprocess.Popen(
        sandbox.command(argv, loopback=alone), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def test_the_sandbox_ends_with_the_status_of_its_child(alone):
    """An exit code as it is, a signal as shells write it."""
    assert supervised(alone, "sh", "-c", "exit 7").wait(PATIENCE_S) == 7
    assert supervised(alone, "sh", "-c", "kill -KILL $$").wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_lines_on_the_lifeline_reach_the_child(alone):
    """The harness outside talks to the one inside."""
    process = supervised(alone, "head", "-n1")
    process.stdin.write("stop please\n")
    process.stdin.flush()
    assert process.stdout.readline() == "stop please\n"
    assert process.wait(PATIENCE_S) == 0


def test_the_end_of_the_lifeline_kills_everything(alone):
    """A child, a grandchild in a session of its own, and a frozen one hold the pipe open; it closes when all are dead."""
    script = "setsid sleep 300 & sleep 300 & kill -STOP $!; echo up; sleep 300"
    process = supervised(alone, "sh", "-c", script)
    assert process.stdout.readline() == "up\n"
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 128 + signal.SIGKILL
    assert process.stdout.read() == ""


@pytest.mark.parametrize(("does", "grace_s", "status"), [("echo tidied", 120, 0), ("sleep 300", 0.1, 128 + signal.SIGKILL)])
def test_with_grace_the_child_may_clean_up_first(does, grace_s, status):
    """Its own input ends; what it does then is waited for, but not for ever."""
    argv = [
        sys.executable,
        "-m",
        "fencepost.clusters.local.init",
        f"--grace={grace_s}",
        "--",
        "sh",
        "-c",
        f"echo up; cat; {does}",
    ]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    process.stdin.close()
    assert process.wait(PATIENCE_S) == status
    assert process.stdout.read() == ("tidied\n" if status == 0 else "")


def test_orphans_do_not_survive_the_child(alone):
    """The child ends well and leaves a daemon behind, which is killed."""
    process = supervised(alone, "sh", "-c", "setsid sleep 300 & exit 0")
    assert process.wait(PATIENCE_S) == 0
    assert process.stdout.read() == ""


def test_killing_the_harness_kills_the_sandbox(alone, tmp_path):
    """kill -9 of the process that holds the lifeline: whatever held the other pipe is gone."""
    inner = ["sh", "-c", "setsid sleep 300 & echo up; sleep 300"]
    outer = f"import subprocess; subprocess.Popen({sandbox.command(inner, loopback=alone)!r}, stdin=subprocess.PIPE).wait()"
    harness = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
    assert harness.stdout.readline() == "up\n"
    harness.kill()
    harness.wait()
    assert harness.stdout.read() == ""
