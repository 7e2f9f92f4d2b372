"""The documents of a round: `junit.xml` for CI systems, `summary.md` for people."""

from __future__ import annotations

from fencepost.harness.api.beneath import write_text
from fencepost.harness.rounds.folders import JUNIT, SUMMARY, RoundRecord
from fencepost.harness.rounds.junit import junit
from fencepost.harness.rounds.summary import summary
from fencepost.harness.secrets import mask


def write_documents(record: RoundRecord) -> None:
    """Write both as the round is by now. Raises UnwritableFile."""
    write_text(record.directory, JUNIT, mask(junit(record.round, record.folder)))
    write_text(record.directory, SUMMARY, mask(summary(record.round, record.folder)))
