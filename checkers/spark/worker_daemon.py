"""PySpark's daemon, which forks the Python workers of this machine, from the installed package.

Spark puts a zip file of the same package before it on the search path. Python compiles what it imports from a zip file anew in
every process: the daemon and each worker. So the zip file is taken off the path.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def without_zips(path: Sequence[str]) -> list[str]:
    """A search path without the zip files that lie in the PySpark it leads to anyway."""
    found = PathFinder.find_spec("pyspark", [entry for entry in path if not entry.endswith(".zip")])
    zips = Path(found.origin).parent / "python" / "lib" if found and found.origin else None
    return [entry for entry in path if Path(entry).parent != zips]


if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    import pyspark.daemon
    import pyspark.worker  # once for all workers; it starts no thread

    pyspark.daemon.manager()
