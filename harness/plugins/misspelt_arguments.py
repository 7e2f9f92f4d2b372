"""Misspelt arguments in a plug-in's module: the nearest right one, as the class that refused it has them."""

from __future__ import annotations

import inspect
import re

from fencepost.harness.api.words import did_you_mean

_UNEXPECTED = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def misspelt_argument(error: BaseException) -> str:
    """`; did you mean "evidence"?` where a class was made with an argument that it does not know; else empty.

    The class is looked up by its name where the error was raised.
    """
    match, frame = _UNEXPECTED.fullmatch(str(error)), error.__traceback__
    if not (isinstance(error, TypeError) and match and frame):
        return ""
    while frame.tb_next is not None:
        frame = frame.tb_next
    made = {**frame.tb_frame.f_globals, **frame.tb_frame.f_locals}.get(match[1])
    return did_you_mean(match[2], inspect.signature(made).parameters) if isinstance(made, type) else ""
