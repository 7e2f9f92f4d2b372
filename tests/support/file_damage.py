"""Random damage to the files of a run's directory: what disks, copies and people do to them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (None, -1, 1 << 70, 1.5, "", "x", True, [], {}, [[]], {"a": None}, "\ud800")


def damage(folder: Path, rng: Random) -> list[str]:
    """Damage one to three files below `folder`; returns what was done, in words."""
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        files = sorted(path for path in folder.rglob("*") if _ordinary(path))
        if files:
            path = rng.choice(files)
            ways = [
                *ANY,
                *(LINES * 3 if path.suffix == ".jsonl" else ()),
                *(JSON * 2 if path.suffix in (".json", ".jsonl") else ()),
            ]
            way = rng.choice(ways)
            way(path, rng)
            done.append(f"{way.__name__} {path.relative_to(folder)}")
    return done


def _ordinary(path: Path) -> bool:
    """True if it can be damaged once more: not one `without_end`, which cannot be copied."""
    return path.is_file() and not path.is_symlink() and path.name[0] != "." and path.stat().st_size < 1 << 30


# --------------------------------------------------------------------------------------------------
# Any file
# --------------------------------------------------------------------------------------------------
def _rewritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def removed(path: Path, rng: Random) -> None:
    path.unlink()


def emptied(path: Path, rng: Random) -> None:
    _rewritten(path, b"")


def cut(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    _rewritten(path, content[: rng.randrange(len(content) + 1)])


def beginning_cut(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    _rewritten(path, content[rng.randrange(len(content) + 1) :])


def bytes_changed(path: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3, 20))):
        if content:
            content[rng.randrange(len(content))] = rng.choice((0, 10, 34, 48, 57, 123, 195, 255, rng.randrange(256)))
    _rewritten(path, bytes(content))


def a_span_of_noise(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    start = rng.randrange(len(content) + 1)
    _rewritten(path, content[:start] + rng.randbytes(rng.randrange(1, 200)) + content[start + rng.randrange(200) :])


def nulls_at_the_end(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    intact = rng.randrange(len(content) + 1)
    _rewritten(path, content[:intact] + bytes(len(content) - intact))


def without_end(path: Path, rng: Random) -> None:
    """A sparse file: nothing on the disk, and more than any memory."""
    os.truncate(path, 1 << 42)


def a_block_over_another(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    size = rng.choice((512, 4096))
    source, target = (rng.randrange(len(content) // size + 1) * size for _ in range(2))
    block = content[source : source + size]
    _rewritten(path, content[:target] + block + content[target + len(block) :])


def a_directory(path: Path, rng: Random) -> None:
    path.unlink()
    path.mkdir()


def a_link(path: Path, rng: Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice((path.name, "nowhere", "/dev/null", "..")))


def a_pipe(path: Path, rng: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def another_encoding(path: Path, rng: Random) -> None:
    _rewritten(path, path.read_bytes().decode("latin-1").encode(rng.choice(("utf-16", "utf-32", "utf-8-sig"))))


def copied_beside(path: Path, rng: Random) -> None:
    shutil.copy(path, path.with_name(f"copy-of-{path.name}"))


def another_file(path: Path, rng: Random) -> None:
    others = [other for other in path.parent.iterdir() if _ordinary(other) and other != path]
    if others:
        shutil.copy(rng.choice(sorted(others)), path)


ANY: tuple[Callable[[Path, Random], None], ...] = (
    removed,
    emptied,
    cut,
    beginning_cut,
    bytes_changed,
    bytes_changed,
    a_span_of_noise,
    nulls_at_the_end,
    without_end,
    a_block_over_another,
    a_directory,
    a_link,
    a_pipe,
    another_encoding,
    copied_beside,
    another_file,
)


# --------------------------------------------------------------------------------------------------
# Lines
# --------------------------------------------------------------------------------------------------
def _with_lines(path: Path, change: Callable[[list[bytes]], Any]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if lines:
        change(lines)
    _rewritten(path, b"".join(lines))


def a_line_removed(path: Path, rng: Random) -> None:
    _with_lines(path, lambda lines: lines.pop(rng.randrange(len(lines))))


def cut_at_a_line(path: Path, rng: Random) -> None:
    def change(lines: list[bytes]) -> None:
        del lines[rng.randrange(len(lines)) :]

    _with_lines(path, change)


def a_line_twice(path: Path, rng: Random) -> None:
    _with_lines(path, lambda lines: lines.insert(rng.randrange(len(lines)), rng.choice(lines)))


def lines_in_another_order(path: Path, rng: Random) -> None:
    _with_lines(path, rng.shuffle)


def deep_nesting(path: Path, rng: Random) -> None:
    _with_lines(path, lambda lines: lines.insert(rng.randrange(len(lines)), b"[" * 5000 + b"\n"))


def a_digit_changed(path: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    digits = [at for at, byte in enumerate(content) if 48 <= byte <= 57]
    if digits:
        content[rng.choice(digits)] = rng.randrange(48, 58)
    _rewritten(path, bytes(content))


LINES = (a_line_removed, cut_at_a_line, a_line_twice, lines_in_another_order, deep_nesting, a_digit_changed)


# --------------------------------------------------------------------------------------------------
# JSON
# --------------------------------------------------------------------------------------------------
def another_value(path: Path, rng: Random) -> None:
    """One value at any depth becomes another one, of another type perhaps."""

    def change(lines: list[bytes]) -> None:
        at = rng.randrange(len(lines))
        try:
            lines[at] = json.dumps(_changed(json.loads(lines[at]), rng)).encode() + b"\n"
        except (ValueError, RecursionError):
            lines[at] = b"\n"

    if path.suffix == ".jsonl":
        _with_lines(path, change)
    else:
        try:
            _rewritten(path, json.dumps(_changed(json.loads(path.read_bytes()), rng)).encode())
        except (ValueError, RecursionError):
            _rewritten(path, b"{}")


def _changed(document: Any, rng: Random) -> Any:
    places = list(_places(document))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(VALUES)
    return document


def _places(value: Any) -> Any:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


LITERALS = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"9" * 40,
    b"9" * 5000,
    b'"\\ud800"',
    b'"\\u001b[2J"',
    b'1, "schema": []',
    b"{}",
)
_VALUE = re.compile(rb'(?<=[:\[,])\s*("(?:[^"\\]|\\.)*"(?!\s*:)|-?\d+(?:\.\d+)?|true|false|null)')


def a_literal(path: Path, rng: Random) -> None:
    """Something that a JSON writer does not write, or a key a second time."""
    content = path.read_bytes()
    if places := list(_VALUE.finditer(content)):
        place = rng.choice(places)
        _rewritten(path, content[: place.start(1)] + rng.choice(LITERALS) + content[place.end(1) :])


JSON = (another_value, a_literal)
