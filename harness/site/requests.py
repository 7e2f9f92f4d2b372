"""Requests to the served site, as far as they can be judged without looking at a file: the path, the host, the range."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from fencepost.harness.system.addresses import is_address

LONGEST_PATH = 4_096  # bytes of a request's path
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")

TYPES = {
    "report.html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".jsonl": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".log": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".out": "text/plain; charset=utf-8",
    ".err": "text/plain; charset=utf-8",
    ".properties": "text/plain; charset=utf-8",
    ".toml": "text/plain; charset=utf-8",
    ".xml": "text/plain; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".gz": "application/gzip",
}
OF_LOGS = "text/plain; charset=utf-8"
ANY = "application/octet-stream"


class BadPath(ValueError):
    """A path that names nothing that could be there."""


def segments(target: str) -> list[str]:
    """The decoded segments of a request's target behind the first `/`; the last is empty where it ends in `/`.

    The target is split before it is decoded, so that no encoded slash divides a segment. Raises BadPath for a target that is no
    path, for segments that are empty, `.` or `..`, and for those with a slash or a NUL.
    """
    path = re.split(r"[?#]", target, maxsplit=1)[0]
    if not path.startswith("/") or len(path) > LONGEST_PATH or _BROKEN.search(path):
        raise BadPath
    decoded = [os.fsdecode(unquote_to_bytes(segment)) for segment in path[1:].split("/")]
    if any(segment in ("", ".", "..") for segment in decoded[:-1]) or decoded[-1] in (".", ".."):
        raise BadPath
    if any("/" in segment or "\0" in segment for segment in decoded):
        raise BadPath
    return decoded


def is_our_host(given: Sequence[str], named: str) -> bool:
    """Return whether the Host headers of a request name this server: by an address, as `localhost`, or by its name as given.

    A page of another site can make a browser send requests here under that site's name (DNS rebinding), and under no other.
    """
    if len(given) != 1:
        return False
    host = re.sub(r":\d{1,5}\Z", "", given[0].strip()).lower()
    return host in ("localhost", named.lower()) or is_address(host)


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """The first byte and the one behind the last that are asked for; None: the whole file, also for what is no single range.

    Raises ValueError: no byte of the file is in the range.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < begin:
            return None
    if begin >= end:
        raise ValueError(f"no byte of {size}")
    return begin, end


def content_type(names: Sequence[str]) -> str:
    """The type of a file of a run by the names on its way: by a table, and text for everything that is a log."""
    name = names[-1].lower()
    if name in TYPES:
        return TYPES[name]
    known = next((kind for ending, kind in TYPES.items() if ending.startswith(".") and name.endswith(ending)), "")
    return known or (OF_LOGS if "logs" in names[:-1] else ANY)
