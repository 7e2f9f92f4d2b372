"""Numbers, times and foreign text, written for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from markupsafe import Markup, escape

from fencepost.harness.api import split_record_id
from fencepost.harness.visible_text import visible

NOTHING = "\N{EN DASH}"  # what stands where there is no value
MOST_LETTERS = 200_000  # of a single text on the page: more than anything has that a person reads
MOST_LETTERS_OF_A_LINE = 2_000  # of a summary, which is a screenful
_NO_ANCHOR = re.compile(r"[^A-Za-z0-9._-]+")
_MARKDOWN = re.compile(r"([\\`*_\[\]#|~>])")


def shortened(text: str, most: int) -> str:
    """The beginning of a long text, so that one record's content does not fill the page."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def anchor(kind: str, name: object) -> str:
    """The id of an element that links lead to: `property-lost-write`. Of a name from elsewhere only plain letters are left."""
    return f"{kind}-{_NO_ANCHOR.sub('-', str(name))[:80]}"


def coded(text: str) -> Markup:
    """Text in which `` `words` `` in backticks are set as code; everything is escaped."""
    text = _seen(text)
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick that nothing closes
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def for_html(value: Any) -> Any:
    """Jinja's `finalize`: nothing for None, and `visible` text before it is escaped."""
    if value is None:
        return ""
    return _seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _seen(text: str) -> str:
    return visible(shortened(text, MOST_LETTERS))


def for_markdown(value: Any) -> Any:
    """Jinja's `finalize` for Markdown: one line, no markup, no table cell boundary that was not meant."""
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    line = " ".join(visible(shortened(value, MOST_LETTERS_OF_A_LINE)).split())
    return _MARKDOWN.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))


def fenced(text: str) -> Markup:
    """A Markdown code block that `text` cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}\n{visible(text)}\n{fence}")


def number(value: float | None) -> str:
    """A count with thousands separated; a dash for what is not known."""
    return NOTHING if value is None else f"{value:,}"


def at(ns: int | None, origin_ns: int) -> str:
    """A moment as seconds since the start of the run; a dash for never."""
    return NOTHING if not ns or ns < 0 else f"{(ns - origin_ns) / 1e9:,.3f} s"


def duration(ns: float) -> str:
    """A length of time (nanoseconds) in the unit that suits it; a dash for one that no number holds."""
    if not isfinite(ns):
        return NOTHING
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} µs"
    if ns < 1_000_000_000:
        return f"{ns / 1e6:.0f} ms"
    if ns < 120_000_000_000:
        return f"{ns / 1e9:.1f} s"
    return f"{int(ns // 60_000_000_000)} min {int(ns % 60_000_000_000 / 1e9)} s"


def size(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1e3:,.0f} kB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"


def place(partition: str | None, offset: int | None) -> str:
    """`orders-0@17`; a question mark when the offset is not known."""
    return f"{partition or '?'}@{'?' if offset is None or offset < 0 else offset}"


def record_name(v: int | None) -> str:
    """The sender of a record: `process 3, op 7, record 0`."""
    if v is None:
        return NOTHING
    if v < 0:
        return "not of this run"
    process, op, seq = split_record_id(v)
    return f"process {process}, op {op}, record {seq}"


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a JSON value as (path, text)."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{prefix} / {key}" if prefix else str(key))
    elif isinstance(value, list) and value and any(isinstance(inner, (Mapping, list)) for inner in value):
        for position, inner in enumerate(value):
            yield from flat(inner, f"{prefix} / {position}" if prefix else str(position))
    else:
        yield prefix, plain(value)


def plain(value: Any) -> str:
    """A JSON leaf as text: words instead of `null`, `true` and brackets."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(inner) for inner in value) or "none"
    if isinstance(value, Mapping):
        return json.dumps(value) if value else "none"
    return str(value)
