"""A report in the browser: a script that plays its reader, and what is the same of every sound page."""

from __future__ import annotations

import re
from pathlib import Path

from support.browser import Dom

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy".*?>')


def acted(report: Path, script: str) -> Path:
    """A copy of a report in which a script of the test's plays the reader (so without the policy that forbids it)."""
    copy = report.with_name("acted.html")
    html, removed = _POLICY.subn("", report.read_text("utf-8"))
    assert removed == 1
    copy.write_text(html.replace("</body>", f"<p id=result></p><script id=play>{script}</script></body>"), "utf-8")
    return copy


def assert_sound(dom: Dom) -> None:
    """The scripts came to their end and nothing complained."""
    html = next(attrs for tag, attrs in dom.elements if tag == "html")
    assert html.get("data-ready") == "true"
    assert "hidden" in dom.named("script-errors"), dom.text.get("script-errors")
