"""The plan of faults: a pure function of the test's `[[nemesis]]` tables, its length and its seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from harness.api import CampaignError, FaultChoice, Injection

LAST_START_S = 1.0  # no fault starts later than this before the end


@dataclass(frozen=True)
class _Slot:
    at_s: float
    lasts_s: float
    choice: FaultChoice
    seed: int


def draw(nemeses: Sequence[FaultChoice], time_s: float, seed: int) -> list[Injection]:
    """The faults of a run of `time_s` seconds, by time; ids count from 0.

    Every lane is a timeline of its own: a pause, a fault, a pause, a fault. Each slot picks one of the lane's choices, all
    alike, and takes pause and length from it. No fault starts in the last second or lasts beyond the end. A lane's faults
    depend on the seed, the lane's name and its choices only: other lanes may come and go, and a longer run starts alike.
    Each injection gets a seed of its own.

    Raises CampaignError with every range that makes no sense.
    """
    wrong = [text for number, choice in enumerate(nemeses) for text in mistakes(choice, f"nemesis[{number}]")]
    if wrong:
        raise CampaignError(wrong)
    slots = [slot for lane in lanes(nemeses) for slot in _timeline(lane, nemeses, time_s, seed)]
    return [
        Injection(
            id=number,
            at_s=slot.at_s,
            lasts_s=slot.lasts_s,
            kind=slot.choice.kind,
            options=dict(slot.choice.options),
            lane=slot.choice.lane,
            seed=slot.seed,
        )
        for number, slot in enumerate(sorted(slots, key=lambda slot: slot.at_s))
    ]


def lanes(nemeses: Sequence[FaultChoice]) -> list[str]:
    """The names of the lanes, in the order in which they are first used."""
    return list(dict.fromkeys(choice.lane for choice in nemeses))


def mistakes(choice: FaultChoice, where: str) -> list[str]:
    """What is wrong with a choice's `every_s` and `lasts_s`; `where` names its table."""
    found = []
    for key, (low, high) in (("every_s", choice.every_s), ("lasts_s", choice.lasts_s)):
        if low < 0:
            found.append(f"{where}.{key}: [{low:g}, {high:g}] begins before 0")
        if low > high:
            found.append(f"{where}.{key}: [{low:g}, {high:g}] must hold the smaller number first")
    if not found and choice.every_s[0] + choice.lasts_s[0] < 0.1:
        found.append(f"{where}: every_s and lasts_s together may fall below 0.1 s; a fault takes longer than that")
    return found


def _timeline(lane: str, nemeses: Sequence[FaultChoice], time_s: float, seed: int) -> list[_Slot]:
    choices = [choice for choice in nemeses if choice.lane == lane]
    rng = Random(f"fencepost schedule {seed} {lane}")
    slots: list[_Slot] = []
    free_s = 0.0
    while True:
        choice = choices[int(rng.random() * len(choices))]
        at_s = round(free_s + _between(choice.every_s, rng), 3)
        lasts_s = round(_between(choice.lasts_s, rng), 3)
        if at_s > time_s - LAST_START_S:
            return slots
        lasts_s = round(min(lasts_s, time_s - at_s), 3)
        slots.append(_Slot(at_s, lasts_s, choice, _seed_of(seed, lane, len(slots))))
        free_s = at_s + lasts_s


def _between(span: tuple[float, float], rng: Random) -> float:
    """Uniform. Only `Random.random()` promises the same numbers on every Python."""
    return span[0] + (span[1] - span[0]) * rng.random()


def _seed_of(seed: int, lane: str, number: int) -> int:
    """A seed below 2^53, so that it survives JSON readers that use doubles."""
    digest = hashlib.sha256(f"fencepost injection {seed} {lane} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11
