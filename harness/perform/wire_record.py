"""What the proxies before the brokers recorded, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.harness.api import Cluster, Interceptable
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import NodeRecord, with_nodes

if TYPE_CHECKING:
    import pyarrow as pa

NO_PROXY, ENDED = "no proxy stood before it", "its proxy had ended"


def write_wire(cluster: Cluster, run_dir: Path) -> Iterator[str]:
    """Write `wire.parquet`; yields why a record could not be read, or ends early. Does nothing where there were no proxies."""
    proxied = cluster.proxied() if isinstance(cluster, Interceptable) else {}
    if not proxied:
        return
    import pyarrow.parquet as pq  # here, because a run begins without it

    from fencepost.harness.proxy import record

    try:
        table = record.read(run_dir / RunFile.WIRE_LINES)
    except (OSError, ValueError) as error:
        yield f"what is on the wire is not kept as evidence: {error}"
        return
    nodes = {node: _record_of(node, proxied, table) for node in cluster.brokers}
    yield from (
        f"the record of what is on the wire ends early before {node}: {each.why}" for node, each in nodes.items() if each.why
    )
    with replacing(run_dir, RunFile.WIRE) as part:
        pq.write_table(with_nodes(table, nodes), part, compression="zstd")


def _record_of(node: str, proxied: Mapping[str, bool], table: pa.Table) -> NodeRecord:
    """Up to when a broker's record is whole: each line was written before its message went on."""
    import pyarrow.compute as pc

    if proxied.get(node):
        return NodeRecord()
    last_ns = pc.max(table.filter(pc.field("node") == node)["arrived_ns"]).as_py() if node in proxied else None
    return NodeRecord(until_ns=last_ns or 0, why=ENDED if node in proxied else NO_PROXY)
