"""The graph of a run as a GraphML file."""

from __future__ import annotations

from pathlib import Path

from fencepost.harness.api.run import Run
from fencepost.harness.data.recorded_run import MOST_OPERATIONS, RecordedRun
from fencepost.harness.graphs.graphml import write_graphml
from fencepost.harness.interop.output import opened


def export(run: Run, out: Path | None, finding: int | None = None, radius: int = 1) -> int:
    """Write the graph of a run, or what lies around a finding, to `out`, or into its directory; how many nodes and edges it has.

    Raises CampaignError: no such finding, or too large a graph; HistoryError: no history that can be read.
    """
    graph = RecordedRun(run).graph(finding, radius, most=MOST_OPERATIONS)
    with opened(run, file_of(finding), out) as file:
        return write_graphml(graph, file)


def file_of(finding: int | None) -> str:
    """The name of the file in the run's directory."""
    return "graph.graphml" if finding is None else f"finding-{finding}.graphml"
