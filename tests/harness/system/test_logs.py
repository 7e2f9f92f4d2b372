"""Logs of programs that are not ours stay short, whatever is written, and say what they lack."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fencepost.harness.system import logs
from fencepost.nemesis.support.waiting import poll_until

WRITER = "import os, time\nwhile not time.sleep(0.0002): os.write(1, b'x' * 4095 + b'\\n')"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(logs, "LARGEST", 1 << 20)
    monkeypatch.setattr(logs, "EVERY_S", 0.01)


def test_a_log_that_is_written_without_end_stays_short_and_keeps_its_beginning(tmp_path):
    path = tmp_path / "c1" / "application.log"
    path.parent.mkdir()
    path.write_text("it began\n")
    with logs.BoundedLogs(tmp_path).bounded(), path.open("ab") as log:
        writer = subprocess.Popen([sys.executable, "-c", WRITER], stdout=log)
        assert poll_until(lambda: b"were dropped here" in path.read_bytes(), bool, 30.0)
        writer.kill()
        writer.wait()
    text = path.read_text()
    assert len(text) <= 1 << 20
    assert text.startswith("it began\n")
    assert "fencepost: " in text
    assert "bytes of this log were dropped here" in text


def test_what_is_written_behind_the_cut_stays(tmp_path):
    """The last words of a program say why it ended."""
    path = tmp_path / "stderr.log"
    with path.open("ab", buffering=0) as log:
        log.write(b"x" * (2 << 20))
        logs.BoundedLogs(tmp_path).look()
        log.write(b"the reason\n")
    text = path.read_text()
    assert text.endswith(f"\nfencepost: {(2 << 20) - (1 << 19)} bytes of this log were dropped here\nthe reason\n")


@pytest.mark.parametrize("kind", ["link", "fifo", "short", "broker"])
def test_nothing_else_is_cut(tmp_path, kind):
    elsewhere, inside = tmp_path / "elsewhere", tmp_path / "logs"
    inside.mkdir()
    elsewhere.write_bytes(b"x" * (2 << 20))
    if kind == "link":
        (inside / "a.log").symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(inside / "a.log")
    elif kind == "short":
        (inside / "a.log").write_bytes(b"x" * (1 << 20))
    else:
        (inside / "server.log").write_bytes(b"x" * (2 << 20))
    logs.BoundedLogs(inside).look()
    assert elsewhere.stat().st_size == 2 << 20
    assert kind != "short" or (inside / "a.log").stat().st_size == 1 << 20
    assert kind != "broker" or (inside / "server.log").stat().st_size == 2 << 20


def test_a_log_without_a_name_has_the_last_words(monkeypatch):
    monkeypatch.setattr(logs, "SHORT", 1 << 16)
    with logs.ShortLog() as log:
        subprocess.run([sys.executable, "-c", "print('x' * 200_000); print('the reason')"], stdout=log.file, check=True)
        assert log.last_words(1) == "the reason"
        log.shorten()
        assert os.fstat(log.file.fileno()).st_size < 1 << 16
