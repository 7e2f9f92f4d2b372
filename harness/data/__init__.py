"""A run as data, for Python programs and notebooks: `fencepost.open` (docs/run-as-data.md)."""

from fencepost.harness.data.findings import Cycle, CycleStep, Fault, Finding, FindingRecord
from fencepost.harness.data.recorded_run import RecordedRun

__all__ = ["Cycle", "CycleStep", "Fault", "Finding", "FindingRecord", "RecordedRun"]
