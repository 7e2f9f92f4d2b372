"""The settings of runs as pairs of name and value, so that two runs can be compared: of `plan.json`, flattened and bounded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fencepost.harness.api.beneath import limited
from fencepost.harness.api.run import MOST_BYTES, RunFile
from fencepost.harness.page_text import flat, plain, shortened
from fencepost.harness.site.columns import Texts

MOST_SETTINGS = 500  # of a run
LONGEST_NAME, LONGEST_VALUE = 200, 300
MOST_SIZE = 10 << 20  # characters of the settings of all runs on a page, about
_DIGITS = 6  # of a place, about
_SHOWN_ELSEWHERE = ("schema", "run", "prefix", "campaign", "test", "round", "created", "command", "schedule", "manifest", "seed")
_BULKY = ("jars",)  # of the cluster's description: checksums, which the version of Kafka stands for
Settings = tuple[tuple[str, str], ...]


def settings_of(directory: Path) -> Settings | None:
    """The settings of the run in a directory; None when its plan cannot be read."""
    try:
        plan = json.loads(limited(directory, RunFile.PLAN, MOST_BYTES[RunFile.PLAN]))
    except (OSError, ValueError, RecursionError):
        return None
    return flattened(plan) if isinstance(plan, dict) else None


def flattened(plan: Mapping[str, Any]) -> Settings:
    """The settings of a plan in its order. The run's id in them is written `RUN`: it is another in each run."""
    cluster = plan.get("cluster")
    described = cluster.get("description") if isinstance(cluster, dict) else None
    shown: dict[str, Any] = {key: value for key, value in plan.items() if key not in _SHOWN_ELSEWHERE}
    if isinstance(cluster, dict) and isinstance(described, dict):
        shown["cluster"] = {**cluster, "description": {key: value for key, value in described.items() if key not in _BULKY}}
    shown["planned faults"] = _faults(plan.get("schedule"))
    run = str(plan.get("run") or "\0")
    pairs = [(shortened(name, LONGEST_NAME), _value(value, run)) for name, value in flat(shown)]
    return tuple(pairs[:MOST_SETTINGS])


def _value(text: str, run: str) -> str:
    return shortened(text.replace(run, "RUN"), LONGEST_VALUE)


def _faults(schedule: Any) -> str:
    """`4: 2 kill target=leader, 2 pause`: kinds and options, and how often each is planned."""
    if not isinstance(schedule, list):
        return plain(None)
    kinds = Counter(_fault(planned) for planned in schedule if isinstance(planned, dict))
    return f"{len(schedule)}: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}" if kinds else "none"


def _fault(planned: Mapping[str, Any]) -> str:
    options = planned.get("options")
    words = [f"{key}={plain(value)}" for key, value in options.items()] if isinstance(options, dict) else []
    return " ".join([str(planned.get("kind")), *words])


def profiles(of: Iterable[Settings | None]) -> dict[str, Any]:
    """The settings of runs for a page: each name and value once, each list of them once, and of each run its list.

    `of` has -1 for a run whose plan cannot be read, and -2 for those behind the bound of the page.
    """
    names, values = Texts(), Texts()
    lists: list[list[int]] = []
    places: dict[Settings, int] = {}
    at, count = [], 0
    for settings in of:
        if settings is None:
            at.append(-1)
        elif settings in places:
            at.append(places[settings])
        elif names.size + values.size + _DIGITS * count > MOST_SIZE:
            at.append(-2)
        else:
            places[settings] = len(lists)
            at.append(len(lists))
            lists.append([place for name, value in settings for place in (names.place(name), values.place(value))])
            count += len(lists[-1])
    return {"names": names.values, "values": values.values, "lists": lists, "of": at}
