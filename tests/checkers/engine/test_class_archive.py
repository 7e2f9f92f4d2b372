"""The class archives of Spark's JVMs: used where there is one, made where there is none, removed when nobody uses them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fencepost.checkers.engine.class_archive import KEPT_S, archive_options


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    return tmp_path / "spark"


def made_by_the_jvm(text: str) -> str:
    """The file that a JVM with the options that make an archive leaves when it ends."""
    (option,) = [word for word in text.split() if word.startswith("-XX:ArchiveClassesAtExit=")]
    return option.partition("=")[2]


def unused_since(path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_the_archive_of_a_session_that_has_ended_is_used(folder, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 1 << 22)  # no process has so high a number
    made = made_by_the_jvm(archive_options())
    Path(made).write_bytes(b"archive")
    options = archive_options()
    assert "ArchiveClassesAtExit" not in options
    (archive,) = folder.iterdir()
    assert f"-XX:SharedArchiveFile={archive}" in options
    assert archive.read_bytes() == b"archive"


def test_an_archive_that_nobody_has_used_for_long_is_removed_once_another_is_made(folder):
    made_by_the_jvm(archive_options())
    kept, unused, left = (folder / name for name in ("classes-a.jsa", "classes-b.jsa", "classes-c.123"))
    for path, seconds in ((kept, KEPT_S / 2), (unused, KEPT_S + 60), (left, KEPT_S + 60)):
        path.write_bytes(b"")
        unused_since(path, seconds)
    archive_options()
    assert list(folder.iterdir()) == [kept]


def test_an_archive_that_is_used_again_counts_as_used_now(folder):
    made = made_by_the_jvm(archive_options())
    archive = Path(made).with_suffix(".jsa")
    archive.write_bytes(b"")
    unused_since(archive, KEPT_S + 60)
    assert "SharedArchiveFile" in archive_options()
    assert time.time() - archive.stat().st_mtime < KEPT_S
