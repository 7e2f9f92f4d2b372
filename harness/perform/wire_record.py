"""What the proxies before the brokers recorded, as a table."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from fencepost.harness.api import Cluster, ClusterError, HarnessError, Interceptable
from fencepost.harness.api.beneath import names, remove, replacing
from fencepost.harness.api.history import writing
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import FETCHES, NodeRecord, with_nodes, with_numbers
from fencepost.harness.api.words import enumeration, plural
from fencepost.harness.proxy.continuity import NO_END, REPLACED

if TYPE_CHECKING:
    import pyarrow as pa

    from fencepost.harness.proxy.record import Recorded

NO_PROXY = "no proxy stood before it"
ENDED = "its proxy had ended, or its disk was full"
NAMED = 3  # transactional ids of messages that an ended proxy held


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
        recorded = record.recorded(run_dir / RunFile.WIRE_LINES)
        table = with_numbers(named(recorded.table, {**told_names(recorded.table), **_topic_names(cluster)}))
    except (OSError, ValueError) as error:
        yield f"what is on the wire is not kept as evidence: {error}"
        return
    nodes = {node: _seen(recorded, node, proxied) or _record_of(node, proxied, table) for node in cluster.brokers}
    yield from (
        f"the record of what is on the wire ends early before {node}: {each.why}" for node, each in nodes.items() if each.why
    )
    table = with_nodes(table, nodes)
    with replacing(run_dir, RunFile.WIRE) as part:
        pq.write_table(table, part, **writing(table.schema))
    for name in names(run_dir, RunFile.WIRE_LINES):  # some twenty times as large
        remove(run_dir, f"{RunFile.WIRE_LINES}/{name}")


def named(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The table with names of topics in the place of their ids, which newer requests have. names: id -> name.

    A proxy of one broker knows them only if a Metadata answer has passed it before.
    """
    import pyarrow.compute as pc

    for column in ("partitions", "answer_partitions"):
        texts = table[column]
        for id_, name in names.items():
            for key in ('"topic":', '"topic": '):  # `topic_id` stays
                texts = pc.replace_substring(texts, key + json.dumps(id_), key + json.dumps(name))
        table = table.set_column(table.schema.get_field_index(column), table.schema.field(column), texts)
    return table


def told_names(table: pa.Table) -> dict[str, str]:
    """Topics by their ids, as Metadata answers told them, before whatever broker: also those that the workload did not create."""
    import pyarrow.compute as pc

    told = table.filter(pc.equal(table["api"], "Metadata"))["answer_partitions"]
    places = (place for text in pc.unique(told).to_pylist() if text for place in json.loads(text))
    pairs = ((place.get("topic_id"), place.get("topic")) for place in places)
    return {id_: topic for id_, topic in pairs if id_ and topic and topic != id_}


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


def _seen(recorded: Recorded, node: str, proxied: Mapping[str, bool]) -> NodeRecord | None:
    """What the lines themselves show of missing ones; None: nothing. That a proxy runs, or was replaced, is known elsewhere."""
    end = recorded.nodes.get(node)
    if end is None and proxied.get(node) and recorded.numbered:
        return NodeRecord(until_ns=0, why="the file of its record is missing")
    return end if end is not None and end.why not in ("", NO_END, REPLACED) else None


def _record_of(node: str, proxied: Mapping[str, bool], table: pa.Table) -> NodeRecord:
    """Up to when a broker's record is whole: each line was written before its message went on.

    After an end it ends too, even where another proxy has taken the place: what passed in between is not known.
    """
    import pyarrow.compute as pc

    from fencepost.harness.proxy.process import SPAN

    if proxied.get(node):
        return NodeRecord()
    if node not in proxied:
        return NodeRecord(until_ns=0, why=NO_PROXY)
    first = table.filter((pc.field("node") == node) & (pc.field("number") < SPAN))
    return NodeRecord(until_ns=pc.max(first["arrived_ns"]).as_py() or 0, why=ENDED + _held(first.to_pylist()))


def _held(rows: Iterable[Mapping[str, Any]]) -> str:
    """The requests and answers that an ended proxy had and nobody else got, in words, with their transactional ids."""
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["lost"] is None and row["returned_ns"] is None:
            if row["forwarded_ns"] is None:
                ids["request", row["api"]].append(row["transactional_id"] or "")
            elif row["answered_ns"] is not None:
                ids["answer", row["api"]].append(row["transactional_id"] or "")
    texts = [f"{plural(len(some), f'{api} {what}')}{_named(some)}" for (what, api), some in ids.items()]
    return f", and {enumeration(texts)} that it held went no further" if texts else ""


def _named(ids: Sequence[str]) -> str:
    some = [*dict.fromkeys(filter(None, ids))]
    return f" ({', '.join(some[:NAMED])}{', ...' * (len(some) > NAMED)})" if some else ""
