"""`fencepost`, whose runs are judged by its own process, as `check` judges short histories: no Spark starts beside them."""

from __future__ import annotations

import sys
from functools import partialmethod

from fencepost.harness.cli import main
from fencepost.harness.runs.runner import Runner


def start_none(self: Runner, *, warm: bool = True) -> None:
    """Do nothing beside the workload; a history that asks for Spark would find none."""


if __name__ == "__main__":
    Runner.start_spark = start_none
    Runner.judge = partialmethod(Runner.judge, here=True)
    main.main(sys.argv[1:])
