"""pandas, imported when something of it is used: to import it takes longer than most short histories take to be judged.

Most histories need no data frame. So the modules of this package write `from fencepost.checkers.model.frames import pd`, and use
`pd` in functions as they would use pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["pd"]


class _Pandas:
    """pandas as soon as an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module("pandas"), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import pandas as pd
else:
    pd = _Pandas()
