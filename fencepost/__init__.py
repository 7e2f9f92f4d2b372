"""A Jepsen-style correctness test harness for Kafka's exactly-once promises.

The package holds `harness` (the program), `clusters`, `nemesis`, `workloads` and `checkers` (its plug-ins), `campaigns` and
`examples`. In a working copy they are links to the folders beside this one. `open` opens a recorded run as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from fencepost.harness.data import RecordedRun

__all__ = ["open"]


def open(run: str | os.PathLike[str], results: str | os.PathLike[str] | None = None) -> RecordedRun:
    """A recorded run as data: its plan, verdict and findings, its tables as pandas and Spark data frames, its graph.

    run: a run's directory, or that of another judgement of it; a run's id or the beginning of it; `latest`.
    results: the folder in which ids and `latest` are looked up; without, FENCEPOST_RESULTS, else `results` here.

    Raises CampaignError (`fencepost.harness.api`) where there is no such run, where a text may mean several, where its plan
    cannot be read, or while it is still performed.
    """
    from fencepost.harness.data.recorded_run import open_run

    return open_run(run, results)
