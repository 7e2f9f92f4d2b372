"""The plan of a run that somebody else performed: what can be known of it, and what is taken for granted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.contract_layers import overlaid_contract
from fencepost.harness.api.run import Plan, TopicPlan
from fencepost.harness.api.values import PLAN_SCHEMA

_OURS = re.compile(r"(.+)-([0-9]{1,6})")  # a larger number is no partition's, but a part of a key


def contract(functions: Mapping[str, int], given: Mapping[str, str], together: bool = False) -> dict[str, str]:
    """The contract that is assumed: transactions when there was a `txn`, group consumption when there was a `subscribe`.

    together: some `send` has several records, which Jepsen's clients do in transactions only. Raises CampaignError when `given`
    cannot be kept by such a history.
    """
    observed = {
        "transactional": "true" if functions.get("txn") or together else "false",
        "consumption": "subscribed" if functions.get("subscribe") else "assigned",
        "final_read": "true" if functions.get("final-read") else "false",
    }
    assumed = {name: key.elsewhere for name, key in CONTRACT_KEYS.items() if key.elsewhere is not None}
    return overlaid_contract({**assumed, **observed}, given)


def foreign_plan(
    run_dir: Path, source: Mapping[str, Any], promised: Mapping[str, str], given: Mapping[str, str], partitions: Iterable[str]
) -> Plan:
    """`plan.json` of an adopted history (docs/run-directory.md). source: path, format, and what was counted."""
    name = Path(str(source["path"])).name
    return {
        "schema": PLAN_SCHEMA,
        "run": run_dir.name.rpartition("-")[2],
        "campaign": "",
        "test": name,
        "seed": None,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": f"fencepost check {source['path']}",
        "fencepost": version("fencepost"),
        "expect": ["valid"],
        "time_s": 0.0,
        "rate": 0.0,
        "cluster": {"kind": "foreign", "options": {}, "description": {}},
        "workload": {"kind": "foreign", "options": {"format": source["format"]}},
        "client": {"kind": "foreign", "version": "", "producer": {}, "consumer": {}},
        "topics": _topics(partitions),
        "contract": dict(promised),
        "overridden": dict(given),
        "schedule": [],
        "unavailable": {},
        "machine": {},
        "source": dict(source),
    }


def _topics(partitions: Iterable[str]) -> dict[str, TopicPlan]:
    """Topics of partitions named `topic-number`; others (Jepsen's numbers) belong to no topic that has a name."""
    topics: dict[str, Any] = {}
    for partition in partitions:
        match = _OURS.fullmatch(partition)
        if match:
            topic = topics.setdefault(match[1], {"partitions": 0, "replication": None, "settings": {}})
            topic["partitions"] = max(topic["partitions"], int(match[2]) + 1)
    return topics
