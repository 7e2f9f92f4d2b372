"""Addresses within the site, relative to its root; the same in files and when served."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

INDEX, GRID, FINDINGS, COMPARE = "index.html", "grid.html", "findings.html", "compare.html"
TESTS, RUNS = "tests", "runs"
_LONGEST = 60  # characters of a name


def page_of_test(campaign: str, test: str) -> str:
    """The page of a test: its name as a file's, and digits that keep different ones apart."""
    digits = hashlib.sha256("\0".join((campaign, test)).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{campaign}-{test}").strip("-")[:_LONGEST] or "test"
    return f"{TESTS}/{name}-{digits}.html"


def address(place: str) -> str:
    """The address of a place: each byte that is no plain character of a name is percent-encoded."""
    return quote(place.encode("utf-8", "surrogateescape"))


def filtered(**terms: str) -> str:
    """The address of the runs for which all these terms hold exactly, as `assets/filter.js` reads it."""
    words = " ".join(f"{key}={_quoted(value)}" for key, value in terms.items())
    return f"{INDEX}#q={quote(words, safe='')}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
