"""What the proxies before the brokers recorded, as a table."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from fencepost.harness.api import Cluster, ClusterError, HarnessError, Interceptable
from fencepost.harness.api.beneath import names, remove, replacing
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import FETCHES, NodeRecord, with_nodes

if TYPE_CHECKING:
    import pyarrow as pa

NO_PROXY, ENDED = "no proxy stood before it", "its proxy had ended"


def record_fetches(cluster: Cluster) -> None:
    """Have the proxies record each Fetch of a client, from now on. Raises ClusterError: there are none."""
    proxied = cluster.proxied() if isinstance(cluster, Interceptable) else {}
    if not isinstance(cluster, Interceptable) or not proxied:
        raise ClusterError("workload.wire = true needs a proxy before the brokers: cluster.proxy = true")
    cluster.intercept(FETCHES)


def write_wire(cluster: Cluster, run_dir: Path) -> Iterator[str]:
    """Write `wire.parquet` in the place of the proxies' lines; yields why a record could not be read, or ends early.

    Does nothing where there were no proxies.
    """
    proxied = cluster.proxied() if isinstance(cluster, Interceptable) else {}
    if not proxied:
        return
    import pyarrow.parquet as pq  # here, because a run begins without it

    from fencepost.harness.proxy import record

    try:
        table = named(record.read(run_dir / RunFile.WIRE_LINES), _topic_names(cluster))
    except (OSError, ValueError) as error:
        yield f"what is on the wire is not kept as evidence: {error}"
        return
    nodes = {node: _record_of(node, proxied, table) for node in cluster.brokers}
    yield from (
        f"the record of what is on the wire ends early before {node}: {each.why}" for node, each in nodes.items() if each.why
    )
    with replacing(run_dir, RunFile.WIRE) as part:
        pq.write_table(with_nodes(table, nodes), part, compression="zstd")
    for name in names(run_dir, RunFile.WIRE_LINES):  # some twenty times as large
        remove(run_dir, f"{RunFile.WIRE_LINES}/{name}")


def named(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The table with names of topics in the place of their ids, which newer requests have. names: id -> name.

    A proxy of one broker knows them only if a Metadata answer has passed it.
    """
    import pyarrow.compute as pc

    for column in ("partitions", "answer_partitions"):
        texts = table[column]
        for id_, name in names.items():
            texts = pc.replace_substring(texts, json.dumps(id_), json.dumps(name))
        table = table.set_column(table.schema.get_field_index(column), table.schema.field(column), texts)
    return table


def _topic_names(cluster: Cluster) -> dict[str, str]:
    """The workload's topics by their ids, as far as the cluster tells."""
    topics = sorted({partition.rpartition("-")[0] for partition in cluster.topics})
    ids = {topic: _ids(cluster, topic) for topic in topics}
    return {text: topic for topic, some in ids.items() for id_ in some if (text := on_wire(id_))}


def on_wire(topic_id: str) -> str:
    """A topic's id as Kafka writes it: its bytes in base64; empty for what is none."""
    try:
        return urlsafe_b64encode(UUID(topic_id).bytes).decode().rstrip("=")
    except ValueError:
        return ""


def _ids(cluster: Cluster, topic: str) -> set[str]:
    try:
        return set(cluster.admin().topic_ids(topic).values())
    except HarnessError:
        return set()


def _record_of(node: str, proxied: Mapping[str, bool], table: pa.Table) -> NodeRecord:
    """Up to when a broker's record is whole: each line was written before its message went on."""
    import pyarrow.compute as pc

    if proxied.get(node):
        return NodeRecord()
    last_ns = pc.max(table.filter(pc.field("node") == node)["arrived_ns"]).as_py() if node in proxied else None
    return NodeRecord(until_ns=last_ns or 0, why=ENDED if node in proxied else NO_PROXY)
