"""Events: what happens in a run, reported as it happens.

The performer writes a `PerformerEvent` as one line of JSON on its standard output; the harness passes on what a display shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from fencepost.harness.api.plans import Test


class PhaseEvent(TypedDict):
    """A phase of the run begins.

    phase: `cluster`, `workload`, `heal`, `settle`, `final-read`, `fetch`, `merge`, `check` or `report`.
    text: the same in words.
    """

    event: Literal["phase"]
    phase: str
    text: str


class ProgressEvent(TypedDict):
    """The progress of the workload.

    elapsed_s: seconds since its start.
    time_s: seconds for which it is to run.
    ok: operations that ended `ok` so far.
    fail: operations that ended `fail` so far.
    info: operations that ended `info` so far.
    faults: the faults that are in force, in words.
    """

    event: Literal["progress"]
    elapsed_s: float
    time_s: float
    ok: int
    fail: int
    info: int
    faults: list[str]


class FaultEvent(TypedDict):
    """A fault struck, or was healed."""

    event: Literal["fault"]
    text: str


class NoteEvent(TypedDict):
    """Something that a person should know, and that ends nothing."""

    event: Literal["note"]
    text: str


class PerformedEvent(TypedDict):
    """The performer has completed the plan. Nothing follows."""

    event: Literal["performed"]


class FailedEvent(TypedDict):
    """The performer has given up. Nothing follows.

    kind: `ClusterError`, or the name of another error.
    text: the error's message.
    """

    event: Literal["failed"]
    kind: str
    text: str


class BeginEvent(TypedDict):
    """A run of several begins.

    number: its number, from 1.
    of: the number of all runs.
    test: its test.
    seed: its seed.
    """

    event: Literal["begin"]
    number: int
    of: int
    test: Test
    seed: int


class ResultEvent(TypedDict):
    """The result of a run, in words."""

    event: Literal["result"]
    text: str


RunningEvent = PhaseEvent | ProgressEvent | FaultEvent | NoteEvent
PerformerEvent = RunningEvent | PerformedEvent | FailedEvent
RunEvent = RunningEvent | BeginEvent | ResultEvent  # what a display shows


def phase_event(phase: str, text: str) -> PhaseEvent:
    return {"event": "phase", "phase": phase, "text": text}


def note_event(text: str) -> NoteEvent:
    return {"event": "note", "text": text}
