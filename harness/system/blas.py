"""numpy without the threads of its linear algebra, of which nothing here makes use.

numpy brings OpenBLAS, which starts a thread for each core as soon as numpy is imported. They look for work for a while, and so
take a twentieth of the processor time of a short check.
"""

from __future__ import annotations

import os
import sys

BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def import_numpy_without_threads() -> None:
    """Import numpy, unless it is there already. Where somebody has said how many threads there shall be, these are started.

    What is started from here has the environment that this process was given. Call it while no other thread imports numpy.
    """
    if "numpy" in sys.modules or BLAS_THREADS in os.environ:
        return
    os.environ[BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[BLAS_THREADS]
