"""Brokers in an incident, by their logs: who led its partitions, coordinated its transaction, truncated its records away."""

from __future__ import annotations

from fencepost.harness.report.broker_lines import Placement
from fencepost.harness.report.documents import Doc
from fencepost.harness.report.incident_material import Material
from fencepost.harness.report.incidents import Incident

_TRUNCATIONS = 4


def leader(made: Material, partition: str, time: int) -> str:
    """The node that led a partition; empty: no log says it."""
    placed = made.logs.leader(partition, made.clock.ms(time)) if made.clock is not None and time else None
    return placed.node if placed else ""


def coordinator(made: Material, row: Doc) -> str:
    """The coordinator of an operation's transactional id when it began; empty: no log says it."""
    name = row.get("transactional_id")
    placed = made.logs.coordinator(name, made.clock.ms(row["time"])) if made.clock is not None and name else None
    return placed.node if placed else ""


def partitions(incident: Incident) -> list[str]:
    """The partitions of an incident's records."""
    return list(dict.fromkeys(record["partition"] for record in incident.records if record.get("partition")))


def concerned(made: Material, incident: Incident) -> tuple[str, ...]:
    """The brokers that led the partitions or coordinated the transaction; none: it is not known which did."""
    nodes = [coordinator(made, row) for row in made.accused(incident)]
    nodes += [leader(made, partition, incident.time) for partition in partitions(incident) if incident.time]
    return tuple(sorted(set(filter(None, nodes))))


def truncations(made: Material, incident: Incident) -> list[Placement]:
    """The first truncations, by brokers' logs, that removed missing records of an incident after these were acknowledged."""
    clock = made.clock
    missing = [record for record in incident.records if record.get("role") == "missing" and (record.get("offset") or -1) >= 0]
    if clock is None or not missing or not incident.time:
        return []
    last = {record["partition"]: record["offset"] for record in sorted(missing, key=lambda record: record["offset"])}
    begun = clock.ms(incident.time)
    placements = [each for log in made.logs.logs for each in log.placements if each.what == "truncated" and each.ms >= begun]
    return sorted(each for each in placements if each.offset <= last.get(each.name, -1))[:_TRUNCATIONS]
