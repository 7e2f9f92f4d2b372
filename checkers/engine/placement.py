"""The choice between this process, with forks of it, and Spark on this machine.

Forks need no start, and have what this process has read; up to as many cores as there are forks they are the quicker of the two
for every history that fits in memory. Spark's executors hold one large partition at a time, and its arrays in files. So a
history is judged here if that takes an eighth of the memory that is available, or less; or no more than Spark takes by itself.
"""

from __future__ import annotations

from fencepost.checkers.history.source import LocalSource, Source
from fencepost.harness.system.memory import available_memory

RECORD = 100  # bytes that are needed at the peak, in all processes together, for a record that was sent or read
SHARE = 8
SPARK = 400 << 20  # bytes of a JVM and its Python workers that have nothing to do yet


def fits_here(history: Source) -> bool:
    """True if this process shall judge a history, and not Spark."""
    if not isinstance(history, LocalSource):
        return False
    count = history.record_count()
    return count <= SPARK // RECORD or count <= most_records()  # the memory is looked up for long histories alone


def most_records() -> int:
    """The number of sent and read records, beyond which a history is judged on Spark."""
    return max(available_memory() // SHARE, SPARK) // RECORD
