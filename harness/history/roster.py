"""The files that belong to a run's history, and those of them that are missing, emptied, shortened, changed, or there twice.

A run's manifest says it. A run without one (of former days, or its manifest was lost) is judged by the headers of its files: the
places of its workers are numbered 0, 1, 2, ..., and so are the files of each place; the last two places are the final readers'.
What each file lost at its end is not known then, and no manifest attests that it is nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind, HistoryFile, between_lines, evidence_of
from fencepost.harness.api.files import fits_in_memory
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history.lines import content_of, numbered
from fencepost.harness.history.manifest import line_total, sound_lines, sound_spans
from fencepost.harness.history.run_directory import lost_manifest

FOREIGN = "foreign"  # the kind of cluster in the plan of an adopted history
HARNESS = "harness.jsonl"
UNKNOWN_TAILS = (Evidence.SENDS, Evidence.POLLS, Evidence.REQUESTS)
CUT_OFF = "the run was cut off"  # the beginning of the reason of its manifest's gap
UNATTESTED = "there is none, so nobody attests that every line of the history is here"
_NAME = re.compile(r"c(\d{1,4})-(\d{1,4})\.jsonl")  # no run has more


@dataclass(frozen=True)
class Roster:
    """The files of a run's history.

    files: those to be read, each with what is known of it; a fault runner's among them.
    slots: how many places for workers there are; 0: not known.
    gaps: what is missing, as far as that is known without reading.
    ours: its files are of a run of ours.
    planned: its plan is known, too.
    """

    files: tuple[HistoryFile, ...]
    slots: int = 0
    gaps: tuple[Gap, ...] = ()
    ours: bool = True
    planned: bool = True


def roster_of(run: Run) -> Roster:
    """The files that belong to a run, of those that are there. Raises HistoryError: files of several runs are mixed."""
    there = present(run)
    if run.manifest is not None:
        return _attested(run, there)
    if not run.plan or run.plan.get("cluster", {}).get("kind") == FOREIGN:
        return _adopted(run, there)
    return _by_headers(run, there)


def present(run: Run) -> list[HistoryFile]:
    """The files of the history that are there, the faults' last; a link that leads nowhere is there too."""
    names = (RunFile.FAULT_LINES, f"{RunFile.FAULT_LINES}.gz")
    faults = [HistoryFile(name, role="faults") for name in names if os.path.lexists(run.path(RunFile.LINES) / name)]
    return [*run.roster, *faults]


def plain_name(file: HistoryFile) -> str:
    """A file's name without its compression."""
    return file.name.removesuffix(".gz")


# --------------------------------------------------------------------------------------------------
# By the manifest
# --------------------------------------------------------------------------------------------------
def _attested(run: Run, present_files: Iterable[HistoryFile]) -> Roster:
    manifest = run.manifest
    assert manifest is not None
    there = {plain_name(file): file.name for file in present_files}
    expected = {file.name: file for file in manifest.files}
    begun = [file for file in manifest.files if file.bytes != 0]  # a worker that died at once has no file
    gaps = [_missing(file, manifest.slots) for file in begun if file.name not in there]
    gaps += [_surplus(name, "it does not belong to the run") for plain, name in there.items() if plain not in expected]
    names = {file.name for file in present_files}
    gaps += [_surplus(name, "it is there twice") for name in sorted(names - set(there.values()))]
    if not manifest.complete:
        uncounted = "what its last seconds wrote" if any(file.least for file in manifest.files) else "the lines of its files"
        why = f"{CUT_OFF}, so nobody counted {uncounted}"
        gaps.append(Gap(file=RunFile.MANIFEST, why=why, kind=GapKind.UNATTESTED, evidence=UNKNOWN_TAILS))
    files = tuple(replace(file, name=there[file.name]) for file in manifest.files if file.name in there)
    return Roster(files, manifest.slots, tuple(gaps))


def _missing(file: HistoryFile, slots: int) -> Gap:
    count = "" if file.lines is None else f", with {file.lines} lines"
    return Gap(
        file=file.name,
        why=f"is missing{count}",
        kind=GapKind.MISSING,
        role=file.role or "",
        slot=file.slot,
        slots=slots,
        lines=file.lines,
        evidence=evidence_of(file.role, file.isolation),
    )


def _surplus(name: str, why: str) -> Gap:
    return Gap(file=name, why=f"{why}; it is not read", kind=GapKind.SURPLUS)


# --------------------------------------------------------------------------------------------------
# By the headers
# --------------------------------------------------------------------------------------------------
def _by_headers(run: Run, present_files: list[HistoryFile]) -> Roster:
    own = [file for file in present_files if file.run in (None, run.id)]
    gaps = [_surplus(file.name, f"it is of run {file.run}") for file in present_files if file.run not in (None, run.id)]
    slots = _slots(own)
    gaps += _missing_by_number(own, slots)
    gaps.append(_without_manifest(run))
    return Roster(_largest_first(run, own), slots, tuple(gaps))


def _without_manifest(run: Run) -> Gap:
    """A run of former days had none. One that had it, and lost it, may have lost or changed anything."""
    if run.plan.get("manifest") or not run.lacks(RunFile.MANIFEST):
        return lost_manifest()
    return Gap(file=RunFile.MANIFEST, why=UNATTESTED, kind=GapKind.UNATTESTED, evidence=UNKNOWN_TAILS)


def _adopted(run: Run, present_files: list[HistoryFile]) -> Roster:
    runs = sorted({file.run for file in present_files if file.run})
    if len(runs) > 1:
        raise HistoryError(f"{run}: files of the runs {', '.join(runs)} are mixed; a history is one run's")
    names = {plain_name(file) for file in present_files}
    if not runs or (HARNESS not in names and not any(_NAME.fullmatch(name) for name in names)):
        return Roster(_largest_first(run, present_files), ours=False, planned=False)
    slots = _slots(present_files)  # files of a run of ours, whose plan is lost
    gaps = [*_missing_by_number(present_files, slots)]
    gaps.append(Gap(file=RunFile.MANIFEST, why=UNATTESTED, kind=GapKind.UNATTESTED, evidence=UNKNOWN_TAILS))
    return Roster(_largest_first(run, present_files), slots, tuple(gaps), planned=False)


def _largest_first(run: Run, files: Iterable[HistoryFile]) -> tuple[HistoryFile, ...]:
    """The files in the order of trust: of two with operations of the same process the smaller is a copy."""
    folder = run.path(RunFile.LINES)
    return tuple(sorted(files, key=lambda file: (-os.stat(folder / file.name, follow_symlinks=False).st_size, file.name)))


def _content(run: Run, file: HistoryFile) -> tuple[bytes, str]:
    """A file's content, and why there is no more of it. Of one that was counted, at most a byte more: then it was added to."""
    most = fits_in_memory()
    wanted = most if file.bytes is None else min(file.bytes, most)
    try:
        held, broken = content_of(run.directory, f"{RunFile.LINES}/{file.name}", wanted + 1)
    except OSError as error:
        return b"", f"it cannot be read ({error.strerror or error})"
    if len(held) > most:
        return b"", f"it cannot be read (it has more than {most:,} bytes, an eighth of this machine's memory)"
    return held, broken


def _slots(files: Iterable[HistoryFile]) -> int:
    """The number of places for workers: known where the final readers are, whose places are the last."""
    final = [file.slot for file in files if file.role == "final" and file.slot is not None]
    return max(final) + 1 if len(final) > 1 else 0


def _missing_by_number(files: list[HistoryFile], slots: int) -> Iterator[Gap]:
    """Files whose numbers are skipped, the harness's, the faults', and those of final readers."""
    names = {plain_name(file) for file in files if not _is_of_another(file)}
    numbers = {(int(match[1]), int(match[2])) for name in names if (match := _NAME.fullmatch(name))}
    finals = {file.slot: file for file in files if file.role == "final" and file.slot is not None}
    places = max((slot for slot, _ in numbers), default=-1) + 1
    if HARNESS in names and len(finals) == 1 and min(finals) - 1 in {slot for slot, _ in numbers}:
        places = max(places, min(finals) + 2)  # what is there is the first of the two
    for slot in range(places):
        last = max((number for place, number in numbers if place == slot), default=0)
        whose = next((file for file in files if file.slot == slot), _whose(slot, slots, finals))
        for number in range(last + 1):
            if (slot, number) not in numbers:
                yield _missing(replace(whose, name=f"c{slot}-{number}.jsonl", slot=slot), slots)
    if numbers and RunFile.FAULT_LINES not in names:
        yield _missing(HistoryFile(RunFile.FAULT_LINES, role="faults"), slots)
    if finals and HARNESS not in names:
        yield _missing(HistoryFile(HARNESS, role="harness"), slots)
    if HARNESS in names and not finals:
        yield replace(_missing(HistoryFile("history", role="final"), slots), why="the final readers' files are missing")


def _is_of_another(file: HistoryFile) -> bool:
    """True if a file has the name of one slot, and the header of another: it is a copy, and the one of that name is gone."""
    match = _NAME.fullmatch(plain_name(file))
    return match is not None and file.slot is not None and file.slot != int(match[1])


def _is_committed(finals: Mapping[int, HistoryFile]) -> bool:
    """Return whether the only final reader that is there reads at read_committed: that one comes first."""
    return all(file.isolation == "read_committed" for file in finals.values())


def _whose(slot: int, slots: int, finals: Mapping[int, HistoryFile]) -> HistoryFile:
    """The owner of a file of which only the place is known. Final readers have the last two places, read_committed first."""
    if slots or slot < min(finals, default=0) - 1:
        return HistoryFile("", role="writer")  # or a reader, whose file holds less
    if len(finals) == 1 and abs(slot - min(finals)) == 1:
        return HistoryFile("", role="final", isolation="read_uncommitted" if _is_committed(finals) else "read_committed")
    return HistoryFile("")


# --------------------------------------------------------------------------------------------------
# Content
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Content:
    """The lines of a file that are to be believed.

    lines: (number from 1, bytes), as `numbered` has them; made while they are read.
    whole: these are all, as they were at the run's end.
    gaps: what the file lost.
    """

    lines: Iterable[tuple[int, bytes]] = ()
    whole: bool = False
    gaps: tuple[Gap, ...] = ()


def content(run: Run, file: HistoryFile, slots: int) -> Content:
    """The lines to be read of a file, and what it lost since the manifest counted it."""
    held, broken = _content(run, file)
    if file.bytes is None:
        if not held and not broken and file.role != "faults":
            return Content(gaps=(_changed(file, slots, GapKind.EMPTIED, "is empty, without a header"),))
        if len(held) < file.least and not broken:
            broken = f"is shorter than it was when the run was cut off ({len(held)} bytes of {file.least} or more)"
        return Content(numbered(held), gaps=(_changed(file, slots, GapKind.SHORTENED, broken),) if broken else ())
    spans = sound_spans(file, held)
    lines, lost = sound_lines(file, held), (file.lines or 0) - line_total(held, spans)
    if not lost and len(held) == file.bytes:
        return Content(lines, whole=True)
    gap = replace(_lost(file, slots, held, lost, broken), lines=lost)
    followed = any(span.start for span in spans)  # what is left is more than the beginning
    return Content(lines, gaps=(replace(gap, evidence=between_lines(gap.evidence)) if followed else gap,))


def _lost(file: HistoryFile, slots: int, held: bytes, lost: int, broken: str) -> Gap:
    of = f"{lost} of its {file.lines} lines are not read"
    if not held and not broken:
        return _changed(file, slots, GapKind.EMPTIED, f"is empty, and had {file.lines} lines")
    if len(held) < (file.bytes or 0):
        return _changed(file, slots, GapKind.SHORTENED, f"{broken or 'is shorter than it was'}; {of}")
    return _changed(file, slots, GapKind.UNREADABLE, f"{broken or 'was changed after the run'}; {of}")


def _changed(file: HistoryFile, slots: int, kind: GapKind, why: str) -> Gap:
    return replace(_missing(file, slots), kind=kind, why=why, lines=None)
