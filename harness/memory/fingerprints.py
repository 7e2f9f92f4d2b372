"""The fingerprint of a finding: what it has in common with the same bug in another run.

It is made of what a test decides and a seed does not: the promise that is broken (the anomaly), the workload and how it was to
behave, the client library and how it was to behave, the contract, the kinds of faults that were planned; and of the errors by
which brokers refused calls of the finding's operation for good. Numbers are no part of it: a test with more writers or other
timeouts shows the same bug. Nor are ids, offsets, times, names of topics, places and hosts, or releases of brokers and clients: a
bug outlives a release, and is gone when its fingerprint comes no more. What is left out, and why, with the controls on which that
was measured: docs/memory.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.harness.api.contract_layers import default_contract
from fencepost.harness.api.run import Run

DIGITS = 12  # of a fingerprint, hexadecimal
OTHER_BROKERS = ("command", "kfake", "redpanda")  # kinds of clusters
_WORD = re.compile(r"[A-Za-z_][\w.=-]*")
_RELEASE = re.compile(r"[-_.]?\d[\d.]*$")  # at the end of a program's path
_NAMES = re.compile(r"topic|group$|image|^ssl\.|^sasl\.|^security\.|\.id$|^version$")  # options whose texts are names, or places


def fingerprint(finding: Mapping[str, Any], run: Run) -> str:
    """Twelve hexadecimal digits; alike for findings of one cause. No ids, offsets or times are part of it."""
    return digest(*finding_parts(finding), *run_parts(run.plan))


def digest(*parts: str) -> str:
    """The fingerprint of these parts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:DIGITS]


def finding_parts(finding: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts that a finding decides: the anomaly, and the definite errors of its operation."""
    return f"anomaly {finding.get('anomaly', '?')}", f"errors {' '.join(sorted(map(str, finding.get('errors') or ())))}"


def run_parts(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts that a test decides, alike for each of its seeds."""
    workload, client, cluster = plan.get("workload") or {}, plan.get("client") or {}, plan.get("cluster") or {}
    topics = (plan.get("topics") or {}).values()
    return (
        f"workload {workload.get('kind', '')} {_text(workload.get('options'))}",
        f"client {_library(client)} {_library(client.get('readers'))} {client.get('recovery') or 'documented'}",
        *(f"{which} {_text(client.get(which))}" for which in ("producer", "consumer", "members")),
        f"topics {' '.join(sorted({_text(topic.get('settings')) for topic in topics}))}",
        f"brokers {_text({'set': (cluster.get('options') or {}).get('settings') or {}})}{_not_kafka(cluster)}",
        f"contract {_contract(plan.get('contract'))}",
        f"overridden {' '.join(sorted(map(str, plan.get('overridden') or {})))}",
        f"faults {' '.join(_fault_kinds(plan))}",
    )


def _not_kafka(cluster: Mapping[str, Any]) -> str:
    """Which brokers they are, without their release, where they are not Kafka's; empty where they are, or nobody knows."""
    kind, options = str(cluster.get("kind") or ""), cluster.get("options") or {}
    return f" of {kind} {str(options.get('title') or '').split(' ')[0]}" if kind in OTHER_BROKERS else ""


def _library(client: Mapping[str, Any] | None) -> str:
    """The client library, without its release."""
    return str((client or {}).get("kind") or "").partition("@")[0]


def _contract(contract: Mapping[str, Any] | None) -> str:
    """What a contract says besides what every contract says that nobody changes: keys of later versions change nothing."""
    default = default_contract()
    return " ".join(sorted(f"{key}={value}" for key, value in (contract or {}).items() if default.get(key) != value))


def _fault_kinds(plan: Mapping[str, Any]) -> list[str]:
    """The kinds of faults of the test; of a plan of before, which does not say, those that were drawn from them."""
    planned = plan.get("nemesis")
    return sorted(
        {str(fault.get("kind", "")) for fault in plan.get("schedule") or ()} if planned is None else set(map(str, planned))
    )


def _text(options: Mapping[str, Any] | None) -> str:
    return " ".join(sorted(set(_modes(options or {}))))


def _modes(options: Mapping[str, Any]) -> Iterator[str]:
    """The options that say how something behaves: flags that are set, and words; no number, no name of a topic or place."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)
            yield from (f"{key}.{mode}" for mode in _modes(value))
        elif value is True or value == "true":
            yield str(key)
        elif not _NAMES.search(str(key)):
            values = value if isinstance(value, (list, tuple)) else [value]
            yield from (f"{key}={word}" for entry in values if isinstance(entry, str) if (word := _word(entry)))


def _word(text: str) -> str:
    """A word among options: a mode, or the name of a program without its folder and release; empty for anything else."""
    name = _RELEASE.sub("", text.rpartition("/")[2]) if "/" in text else text
    return name if _WORD.fullmatch(name) and name != "false" else ""
