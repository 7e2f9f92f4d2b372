"""Everything that decided the run, so that it can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.harness.page_text import flat, plain
from fencepost.harness.report.documents import ReportData


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled list of settings; long ones are folded."""

    title: str
    rows: tuple[tuple[str, str], ...]
    folded: bool = False


OWN_SECTIONS = ("jars", "broker_settings", "second", "services")  # of the cluster's description


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {"sections": sections(run)}


def sections(run: ReportData) -> tuple[Section, ...]:
    """The plan, section by section. Sections without rows are left out."""
    plan = run.plan
    cluster, client = plan.get("cluster", {}), plan.get("client", {})
    described = {key: value for key, value in cluster.get("description", {}).items() if key not in OWN_SECTIONS}
    top = {key: plan.get(key) for key in ("test", "campaign", "run", "seed", "time_s", "rate", "expect", "created", "fencepost")}
    made = [
        _section("Test", top),
        _section("Workload", {"kind": plan.get("workload", {}).get("kind"), **plan.get("workload", {}).get("options", {})}),
        _section("Client", {key: value for key, value in client.items() if key not in ("producer", "consumer")}),
        _section("Producer settings", client.get("producer")),
        _section("Consumer settings", client.get("consumer")),
        _section("Topics", plan.get("topics")),
        _section("What the settings promise", plan.get("contract")),
        _section("Cluster", {"kind": cluster.get("kind"), **cluster.get("options", {}), **described}),
        _section("Outside services", _services(cluster)),
        _section("Second Kafka cluster", cluster.get("description", {}).get("second"), folded=True),
        _section("Machine", plan.get("machine")),
        _section("Checker", {**run.verdict.get("checker", {}), **run.verdict.get("timing", {})}),
        _section("Broker settings", cluster.get("description", {}).get("broker_settings"), folded=True),
        _section("Kafka jars and their checksums", cluster.get("description", {}).get("jars"), folded=True),
        _section("Planned faults", _schedule(run), folded=True),
    ]
    return tuple(section for section in made if section.rows)


def _services(cluster: Mapping[str, Any]) -> dict[str, str]:
    """The declared outside services: where each is, and by which address clients reach it."""
    declared, addresses = cluster.get("options", {}).get("services"), cluster.get("description", {}).get("services")
    if not declared or not isinstance(addresses, Mapping):
        return {}
    return {name: f"{target}, for clients at {addresses.get(name)}" for name, target in declared.items()}


def _section(title: str, values: Any, folded: bool = False) -> Section:
    rows = tuple((key, value) for key, value in flat(values or {}) if key)
    return Section(title=title, rows=rows, folded=folded or len(rows) > 30)


def _schedule(run: ReportData) -> dict[str, str]:
    planned = run.plan.get("schedule", ())
    return {
        f"{i.get('at_s', 0):.1f} s, for {i.get('lasts_s', 0):.1f} s": " ".join(
            [str(i.get("kind")), *(f"{key}={plain(value)}" for key, value in (i.get("options") or {}).items())]
        )
        + f" (fault {i.get('id')}, lane {i.get('lane', 'main')})"
        for i in planned
    }
