"""What the proxies before the brokers recorded, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.run import RunFile


def write_wire(run_dir: Path) -> Iterator[str]:
    """Write `wire.parquet`; yields why a proxy's record could not be read. Does nothing where there were no proxies."""
    directory = run_dir / RunFile.WIRE_LINES
    if not directory.is_dir():
        return
    import pyarrow.parquet as pq  # here, because a run begins without it

    from fencepost.harness.proxy import record

    try:
        table = record.read(directory)
    except (OSError, ValueError) as error:
        yield f"what is on the wire is not kept as evidence: {error}"
        return
    with replacing(run_dir, RunFile.WIRE) as part:
        pq.write_table(table, part, compression="zstd")
