"""pandas, left out of a process until something of it is used.

pyarrow imports pandas as soon as it makes its first array, to know a data frame when it is given one. That takes a tenth of a
short check, which seldom needs a data frame.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def defer_pandas() -> None:
    """Let pyarrow believe that there is no pandas, until somebody imports it: pyarrow is told then, and knows its data.

    Meanwhile pyarrow differs in one thing: times in nanoseconds become `datetime`, which holds microseconds. Call it before
    anything makes an array, while no other thread imports anything. Where pandas is there already, nothing is done.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([0])  # pyarrow looks for pandas now, and never again by itself
    finally:
        sys.meta_path.remove(absent)
    sys.meta_path.insert(0, _Found())


class _Absent(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not imported yet", name=name)
        return None


class _Found(MetaPathFinder):
    """Finds pandas where the others find it, once, so that pyarrow is told when it has been imported."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "pandas":
            return None
        with suppress(ValueError):  # another thread was quicker
            sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader)
        return spec


class _Telling(Loader):
    """Loads pandas by its own loader, and tells pyarrow."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        import pyarrow as pa

        with suppress(ImportError):  # a pandas that is too old for pyarrow
            pa.nulls(0).to_pandas()  # whoever asks for a result of pandas makes pyarrow look again
