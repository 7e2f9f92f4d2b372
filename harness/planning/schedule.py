"""The plan of faults: a pure function of the test's `[[nemesis]]` tables, its length and its seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from fencepost.harness.api import CampaignError
from fencepost.harness.api.plans import IN_TURN, ORDERS, SAME, FaultChoice, Injection, Lane

LAST_START_S = 1.0  # no fault starts later than this before the end
SHORTEST_S = 0.1  # from one fault of a lane to the next
MOST_FAULTS = 20_000  # of one lane in one run


@dataclass(frozen=True)
class _Slot:
    at_s: float
    lasts_s: float
    choice: FaultChoice
    seed: int


def draw(nemeses: Sequence[FaultChoice], time_s: float, seed: int, settings: Mapping[str, Lane] | None = None) -> list[Injection]:
    """The faults of a run of `time_s` seconds, by time; ids count from 0.

    Every lane is a timeline of its own: a pause, a fault, a pause, a fault. Each slot picks one of the lane's choices, all
    alike or in turn, and takes pause and length from it; choices that strike together are one, with the pause of the first. Quiet
    periods come between busy ones. No fault starts in the last second or lasts beyond the end. A lane's faults depend
    on the seed, the lane's name, its settings and its choices only: other lanes may come and go, and a longer run starts alike.
    Each injection gets a seed of its own.

    settings: lane -> its order and its periods. Raises CampaignError with every range that makes no sense.
    """
    settings = settings or {}
    wrong = [text for number, choice in enumerate(nemeses) for text in mistakes(choice, f"nemesis[{number}]")]
    wrong += [text for choice in nemeses for text in [too_many(choice.every_s, choice.lasts_s, time_s)] if text]
    wrong += [text for name, lane in settings.items() for text in lane_mistakes(lane, f"lanes.{name}")]
    if wrong:
        raise CampaignError(wrong)
    slots = [slot for lane in lanes(nemeses) for slot in _timeline(lane, settings.get(lane, Lane()), nemeses, time_s, seed)]
    return [
        Injection(
            id=number,
            at_s=slot.at_s,
            lasts_s=slot.lasts_s,
            kind=slot.choice.kind,
            options=dict(slot.choice.options),
            lane=slot.choice.lane,
            seed=slot.seed,
            when=slot.choice.when,
        )
        for number, slot in enumerate(sorted(slots, key=lambda slot: slot.at_s))
    ]


def lanes(nemeses: Sequence[FaultChoice]) -> list[str]:
    """The names of the lanes, in the order in which they are first used."""
    return list(dict.fromkeys(choice.lane for choice in nemeses))


def mistakes(choice: FaultChoice, where: str) -> list[str]:
    """Mistakes in a choice's `every_s` and `lasts_s`; `where` names its table."""
    wrong = []
    for key, (low, high) in (("every_s", choice.every_s), ("lasts_s", choice.lasts_s)):
        if not math.isfinite(low + high):
            wrong.append(f"{where}.{key}: [{low:g}, {high:g}] is not finite")
        if low < 0:
            wrong.append(f"{where}.{key}: [{low:g}, {high:g}] begins before 0")
        if low > high:
            wrong.append(f"{where}.{key}: [{low:g}, {high:g}] must hold the smaller number first")
    return wrong or [f"{where}: {text}" for text in [too_dense(choice.every_s, choice.lasts_s)] if text]


def too_dense(every_s: tuple[float, float], lasts_s: tuple[float, float]) -> str:
    """The reason why faults cannot follow each other so fast; empty when they can."""
    if every_s[0] + lasts_s[0] < SHORTEST_S:
        return f"every_s and lasts_s together may fall below {SHORTEST_S:g} s; a fault takes longer than that"
    return ""


def too_many(every_s: tuple[float, float], lasts_s: tuple[float, float], time_s: float) -> str:
    """The reason why so long a run cannot have faults that follow each other so fast; empty when it can."""
    shortest_s = max(SHORTEST_S, every_s[0] + lasts_s[0])
    if time_s / shortest_s > MOST_FAULTS:
        return (
            f"may strike {time_s / shortest_s:.0f} times in time_s = {time_s:g}; a lane has at most {MOST_FAULTS} faults: "
            "let every_s or lasts_s begin higher"
        )
    return ""


def lane_mistakes(lane: Lane, where: str) -> list[str]:
    """Mistakes in a lane's settings; `where` names its table."""
    wrong = [] if lane.order in ORDERS else [f'{where}.order: must be {" or ".join(map(repr, ORDERS))}, not "{lane.order}"']
    if text := unpaired(lane):
        wrong.append(f"{where}: {text}")
    for key, span in (("busy_s", lane.busy_s), ("quiet_s", lane.quiet_s)):
        if span is not None and not 0 < span[0] <= span[1]:
            wrong.append(f"{where}.{key}: must be [lowest, highest], both above 0, not [{span[0]:g}, {span[1]:g}]")
    return wrong


def unpaired(lane: Lane) -> str:
    """The reason why a lane's periods are incomplete; empty when both are given, or none."""
    if (lane.busy_s is None) != (lane.quiet_s is None):
        return "busy_s and quiet_s go together: it strikes for so long, and then is quiet for so long"
    return ""


def _timeline(name: str, lane: Lane, nemeses: Sequence[FaultChoice], time_s: float, seed: int) -> list[_Slot]:
    strikes = units([choice for choice in nemeses if choice.lane == name])
    rng = Random(f"fencepost schedule {seed} {name}")
    slots: list[_Slot] = []
    free_s, turn = 0.0, 0
    busy_until_s = _between(lane.busy_s, rng) if lane.busy_s else math.inf
    while True:
        unit = strikes[turn % len(strikes) if lane.order == IN_TURN else int(rng.random() * len(strikes))]
        at_s = free_s + _between(unit[0].every_s, rng)
        lengths = [round(_between(choice.lasts_s, rng), 3) for choice in unit]
        if lane.busy_s and lane.quiet_s and at_s >= busy_until_s:
            began_s = max(free_s, busy_until_s) + _between(lane.quiet_s, rng)
            at_s, busy_until_s = began_s + at_s - free_s, began_s + _between(lane.busy_s, rng)
        at_s = round(at_s, 3)
        if at_s > time_s - LAST_START_S:
            return slots
        for choice, length in zip(unit, lengths, strict=True):
            slots.append(_Slot(at_s, round(min(length, time_s - at_s), 3), choice, _seed_of(seed, name, len(slots))))
        free_s, turn = at_s + max(slot.lasts_s for slot in slots[-len(unit) :]), turn + 1


def units(choices: Sequence[FaultChoice]) -> list[list[FaultChoice]]:
    """Groups of choices that strike at one moment: those of a lane with the same `together`, and each of the others alone."""
    groups: dict[tuple[str, str], list[FaultChoice]] = {}
    for number, choice in enumerate(choices):
        own = (choice.lane, f"together {choice.together}") if choice.together else ("", f"{number}")
        groups.setdefault(own, []).append(choice)
    return list(groups.values())


def in_words(unit: Sequence[FaultChoice]) -> str:
    """The kinds of faults that strike at one moment: `kill + latency (same node)`."""
    return " + ".join(choice.kind + " (same node)" * (choice.options.get("target") == SAME) for choice in unit)


def _between(span: tuple[float, float], rng: Random) -> float:
    """Uniform. Only `Random.random()` promises the same numbers on every Python."""
    return span[0] + (span[1] - span[0]) * rng.random()


def _seed_of(seed: int, lane: str, number: int) -> int:
    """A seed below 2^53, so that it survives JSON readers that use doubles."""
    digest = hashlib.sha256(f"fencepost injection {seed} {lane} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11
