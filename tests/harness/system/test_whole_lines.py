"""Lines as a whole: what a full disk and a kill make of them."""

import errno
import io
import os

import pytest

from fencepost.harness.system import whole_lines
from fencepost.harness.system.whole_lines import write_line


def test_a_part_is_followed_by_the_rest(monkeypatch):
    """A kernel that takes three bytes at a time."""
    taken = []
    monkeypatch.setattr(whole_lines.os, "write", lambda _, content: taken.append(content[:3]) or len(content[:3]))
    write_line(7, b"a line")
    assert b"".join(taken) == b"a line\n"


def test_a_disk_that_is_full_in_the_middle_of_a_line_is_said(monkeypatch):
    answers = iter([3, OSError(errno.ENOSPC, "full")])

    def write(descriptor, content):
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(whole_lines.os, "write", write)
    with pytest.raises(OSError, match="full"):
        write_line(7, b"a line")


def test_a_line_without_end_is_none():
    assert list(whole_lines.whole_lines(io.BytesIO(b"one\ntwo\nthr"))) == [b"one\n", b"two\n"]


def test_lines_go_through_a_pipe():
    reading, writing = os.pipe()
    write_line(writing, b"x" * 1000)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert list(whole_lines.whole_lines(stream)) == [b"x" * 1000 + b"\n"]
