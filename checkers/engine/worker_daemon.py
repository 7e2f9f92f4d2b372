"""PySpark's daemon, which forks the Python workers of this machine, from the installed package.

Spark puts a zip file of the same package before it on the search path. Python compiles what it imports from a zip file anew in
every process: the daemon and each worker. So the zip file is taken off the path.

PySpark looks for garbage after every task, which takes a tenth of a second where pandas and pyarrow are imported. A long history
has a hundred tasks. So what a task has imported is left out of the search.

Directories with plug-ins that the command named are put on it; the working directory is not, for it may be somebody else's.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

YOUNG_OBJECTS = 50_000  # made before Python looks for garbage among them (700 by default)


def without_zips(path: Sequence[str]) -> list[str]:
    """A search path without the zip files that lie in the PySpark it leads to anyway."""
    spec = PathFinder.find_spec("pyspark", [entry for entry in path if not entry.endswith(".zip")])
    zips = Path(spec.origin).parent / "python" / "lib" if spec and spec.origin else None
    return [entry for entry in path if Path(entry).parent != zips]


def with_plugins(path: Sequence[str]) -> list[str]:
    """A search path with the directories of plug-ins (`harness.plugins.registry.SEARCH_VARIABLE`)."""
    named = [entry for entry in os.environ.get("FENCEPOST_PLUGIN_PATH", "").split(os.pathsep) if entry]
    return [*path, *(entry for entry in named if entry not in path)]


def without_imports_in_collections(task: Callable[..., Any]) -> Callable[..., Any]:
    """A worker's task, after which no garbage collection looks at the modules that it imported."""
    known = 0

    def run(*files: Any) -> None:
        nonlocal known
        task(*files)
        if len(sys.modules) > known:
            known = len(sys.modules)
            gc.collect()
            gc.freeze()

    return run


if __name__ == "__main__":
    sys.path[:] = with_plugins(without_zips(sys.path))
    import pyspark.daemon
    import pyspark.worker  # once for all workers; it starts no thread

    gc.set_threshold(YOUNG_OBJECTS)
    pyspark.worker.main = without_imports_in_collections(pyspark.worker.main)
    pyspark.daemon.manager()
