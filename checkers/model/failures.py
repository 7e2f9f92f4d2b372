"""A check's error in one line for its author: the error, and where in the check's own file it came from."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

RAISED = (Exception, SystemExit)  # what a plug-in may raise; one that leaves must not take the verdict's exit code with it


def described(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """`ValueError: too few (checks/my_checks.py, line 12, in mine: raise ValueError("too few"))`.

    function: the check's; its file is preferred to the file of a library that it called.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(function, "__code__", None), "co_filename", "")
    frame = next((entry for entry in reversed(frames) if entry.filename == own), frames[-1] if frames else None)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if frame is None:
        return text
    source = f": {frame.line}" if frame.line else ""
    return f"{text} ({frame.filename}, line {frame.lineno}, in {frame.name}{source})"
