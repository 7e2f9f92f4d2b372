"""Histories adopted in tests: text in, plain rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fencepost.harness.api.evidence import Gap
from fencepost.harness.interop.adopt import adopt

DATA = Path(__file__).parent / "data"


class Adopted:
    """An adopted history. `shown` names every record by its original value, so that identities need no arithmetic."""

    def __init__(self, path: Path, run_dir: Path, **options: Any) -> None:
        run_dir.mkdir()
        self.dir = run_dir
        self.damage: list[Gap] = adopt(path, run_dir, **options)
        self.rows = self.table("history")
        self.faults = self.table("faults")
        values = self.table("values") if (run_dir / "values.parquet").exists() else []
        self.values = {row["v"]: (row["partition"], row["value"]) for row in values}

    def table(self, name: str) -> list[dict[str, Any]]:
        return pq.ParquetFile(self.dir / f"{name}.parquet").read(use_threads=False).to_pylist()

    def shown(self) -> list[tuple[Any, ...]]:
        """(process, f, type, micro-operations), one as (kind, partition, value, offset, acknowledged or returned)."""
        return [(row["process"], row["f"], row["type"], [self.mop(mop) for mop in row["mops"]]) for row in self.rows]

    def mop(self, mop: dict[str, Any]) -> tuple[Any, ...]:
        partition, value = self.values[mop["v"]]
        assert partition == mop["partition"]
        return ("poll" if mop["kind"] else "send", partition, value, mop["offset"], mop["ended"])


def adopted(text: str | bytes, folder: Path, name: str = "history.edn", **options: Any) -> Adopted:
    """Write a history's text to `folder` and adopt it."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Adopted(path, folder / f"run-{len(list(folder.iterdir()))}", **options)
