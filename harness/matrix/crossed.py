"""The campaign of the crossings: `python -m fencepost.harness.matrix.campaign crossed > campaigns/matrix-crossed.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.harness.matrix.covering import SEED, Block, design
from fencepost.harness.matrix.factors import (
    ABORTED,
    BEGINS_ALONE,
    CHANGING,
    CLASSIC,
    COMMITTED,
    CONSUMER,
    FENCED,
    FRESH,
    NO_GROUP,
    RELEASES,
    V1,
)
from fencepost.harness.matrix.toml_text import PATIENCE, table

HEAD = """\
# The cells of the matrix of steps (campaigns/matrix.toml) crossed with the broker that is hit, the version of transactions,
# the client, the group's protocol and the state of the id (docs/protocol-faults.md). The first {first} tests have every pair
# of two factors' values, all {all} have each cell with each value. Each is one start of a cluster, with {strikes} faults in
# all. `fencepost matrix` shows what was covered. Made from fencepost/harness/matrix/; make it again:
# python -m fencepost.harness.matrix.campaign crossed > campaigns/matrix-crossed.toml
name = "matrix-crossed"
seed = {seed}

[defaults.cluster]
kind = "local"
proxy = true
"""
STRIKE_S = 5.0  # a strike with its pause, and the start of a broker that was killed
SESSION = "session.timeout.ms"  # the brokers' in the consumer protocol
SESSIONS = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 1000,
}
ABORTS: Mapping[str, float] = {ABORTED: 0.7, COMMITTED: 0.0}  # by state of the id: the share of transactions that abort
FAULT: Mapping[str, Any] = {"every_s": [0.2, 0.4], "lasts_s": [1.5, 2.5], "catch_within_s": 4}


def text() -> str:
    """The campaign file."""
    blocks = design()
    head = HEAD.format(
        first=sum(block.part == 1 for block in blocks),
        all=len(blocks),
        strikes=sum(len(block.strikes) for block in blocks),
        seed=SEED,
    )
    return "\n".join([head, *map(_test, blocks)])


def name_of(block: Block) -> str:
    """The test's name."""
    return ", ".join([*block.start.values.values(), *([f"part {block.part}"] if block.part > 1 else [])])


def _test(block: Block) -> str:
    start = block.start
    lines = ["[[test]]", f'name = "{name_of(block)}"', f"time_s = {round(len(block.strikes) * STRIKE_S)}"]
    faults = [{"kind": "protocol", **crossing.options(), **FAULT} for crossing in block.crossings]
    lines += ["nemesis = [", *(f"    {table(fault)}," for fault in [*faults, *_beside(block)]), "]"]
    if start.version == V1:
        lines.append('cluster.features = { "transaction.version" = 1 }')
    if start.group == CONSUMER:
        lines.append(f"cluster.settings = {table(SESSIONS)}")
    lines += [f"workload = {table(_workload(block))}", *_client(block), 'lanes.main.order = "in turn"', ""]
    return "\n".join(lines)


def _workload(block: Block) -> dict[str, Any]:
    """What brings ids into the state, and sends the requests."""
    start = block.start
    aborts = {"abort_share": ABORTS[start.id]} if start.id in ABORTS else {}
    if start.group != NO_GROUP:
        return {"kind": "pipeline", "protocol": start.group, **aborts}
    if start.id in ABORTS:
        return {"kind": "transactions", **aborts}
    return {"kind": "fencing", **({"only": "alone"} if start.id == FRESH else {"without": "send_offsets"})}


def _client(block: Block) -> list[str]:
    start = block.start
    client: dict[str, Any] = {"kind": RELEASES[start.client]} if start.client in RELEASES else {}
    if start.group != NO_GROUP:
        client["consumer"] = {name: value for name, value in PATIENCE.items() if name != SESSION or start.group == CLASSIC}
    return [f"client = {table(client)}"] if client else []


def _beside(block: Block) -> Sequence[dict[str, Any]]:
    """The faults in other lanes that bring about what the start has."""
    start, made = block.start, []
    if start.version == CHANGING:
        made.append({"kind": "transaction-version", "level": 1, "lane": "version", "every_s": [1, 2], "lasts_s": [2, 3]})
    if start.group != NO_GROUP and start.id in (FRESH, FENCED):
        made.append({"kind": "fence-producers", "target": "all", "lane": "ids", "every_s": [0.5, 1], "lasts_s": [0.1, 0.2]})
    elif start.id in ABORTS and any(strike.cell.gap in BEGINS_ALONE for strike in block.strikes):
        made.append({"kind": "kill", "target": "client", "lane": "clients", "every_s": [1.5, 2.5], "lasts_s": [0.2, 0.4]})
    return made
