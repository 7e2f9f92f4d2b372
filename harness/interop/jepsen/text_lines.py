"""One line of Jepsen's `history.txt` -> one event: process, type, f, value and perhaps an error, separated by tabs.

Process, type, f and value are EDN. The error is printed as people read it, so it may go on over several lines. Times, indexes,
rebalances, and whether an `assign` sought back to the start are not written there.
"""

from __future__ import annotations

import re
from typing import Any

from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.lines import ContinuedError, Errors, Event, function_name, process_of

NO_TIMES = (
    "the lines of history.txt have neither times nor indexes: their order stands for both, so how long anything took is not "
    "known, and a line that is missing or was moved is not noticed (history.edn of the same run has all of it)"
)
TEXT_LINE = re.compile(r"(-?\d+|:?[A-Za-z][\w-]*)\t:?(invoke|ok|fail|info)\t(\S[^\t]*)\t([^\t]*)(?:\t(.*))?", re.DOTALL)


class TextLines:
    def __init__(self) -> None:
        self._in_error = False  # the line before ends in an error

    def event(self, line: bytes) -> Event:
        text = line.decode()
        match = TEXT_LINE.fullmatch(text)
        if match is None:
            if self._in_error:
                raise ContinuedError(text)
            raise ValueError("it is not process, type, f and value with tabs between them, as Jepsen writes history.txt")
        process, type_, f, value, error = match.groups()
        self._in_error = error is not None
        seek = None if f.lstrip(":") == "assign" else False
        name = function_name(edn.read(f))
        return Event(type_, name, process_of(process), value=edn.read(value), error=Errors.of(error), seek=seek)

    def value(self, event: Event) -> Any:
        return event.value
