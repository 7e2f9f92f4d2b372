"""`manifest.json`: which files belong to a run's history, and what was in them at the run's end (docs/run-directory.md).

A file is listed before it is begun, and its size is noted again and again while the run is performed. So after a crash the
manifest says what must be there, but for the last seconds. At the end each file is counted, and each of its blocks gets a
checksum (CRC-32), so that what was changed later is known block by block.
"""

from __future__ import annotations

import base64
import itertools
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost.harness.api.clocks_ahead import ClockJump
from fencepost.harness.api.evidence import HistoryFile, Manifest
from fencepost.harness.api.files import checksum
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.lines import Span, breaks, numbered, whole_lines
from fencepost.harness.history.run_directory import plan_checksum, write_manifest

BLOCK = 4096  # bytes; the last block of a file may be shorter
LOOK_EVERY_S = 2.0


class ManifestWriter:
    """The manifest of a run that is being performed; every change is on disk when the call returns."""

    def __init__(self, run_dir: Path, plan: Mapping[str, Any], slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_dir, self._clock, self._looked = run_dir, clock, -LOOK_EVERY_S
        self._manifest = Manifest(run=plan["run"], slots=slots, complete=False, files=(), plan=plan_checksum(plan))

    def expect(self, files: Iterable[HistoryFile]) -> None:
        """List files that are about to be begun."""
        self._write(replace(self._manifest, files=(*self._manifest.files, *files)))

    def look(self) -> None:
        """Note the sizes of all files, if that is `LOOK_EVERY_S` ago."""
        if self._clock() - self._looked >= LOOK_EVERY_S:
            self._looked = self._clock()
            folder = self._run_dir / RunFile.LINES
            self._write(replace(self._manifest, files=tuple(_looked_at(folder, file) for file in self._manifest.files)))

    def end_workload(self, seconds: float, stopped: str) -> None:
        """Note how long the workload ran, and who ended it before its time (empty: nobody)."""
        self._write(replace(self._manifest, workload_s=round(seconds, 3), stopped=stopped))

    def note_ended(self, names: Sequence[str]) -> None:
        """Note what has ended though no fault has ended it."""
        self._write(replace(self._manifest, ended=tuple(names)))

    def note_clock_jumps(self, jumps: Sequence[ClockJump]) -> None:
        """Note the jumps of the machine's clock."""
        self._write(replace(self._manifest, clock_jumps=tuple(jumps)))

    def complete(self) -> None:
        """Count every file, after the last line and the last table were written."""
        folder = self._run_dir / RunFile.LINES
        files = tuple(_counted(folder, file) for file in self._manifest.files)
        beside = (self._run_dir / name for name in (RunFile.STORED, RunFile.WIRE))
        tables = {table.name: checksum(table) for table in beside if table.exists()}
        self._write(replace(self._manifest, complete=True, files=files, tables=tables))

    def _write(self, manifest: Manifest) -> None:
        self._manifest = manifest
        write_manifest(self._run_dir, manifest)


def _looked_at(folder: Path, file: HistoryFile) -> HistoryFile:
    """A file with its size now; of one that is not there as it was known before."""
    with suppress(OSError):
        return replace(file, least=(folder / file.name).stat().st_size)
    return file


def _counted(folder: Path, file: HistoryFile) -> HistoryFile:
    """A file that was never begun, because its worker died before, has no lines."""
    path = folder / file.name
    content = path.read_bytes() if path.exists() else b""
    return counted(file, content)


def counted(file: HistoryFile, content: bytes) -> HistoryFile:
    """A file with what is to be known of its content."""
    return replace(file, lines=len(content.splitlines()), bytes=len(content), blocks=_packed(_checksums(content)))


def sound_lines(file: HistoryFile, content: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines (`numbered`) that lie wholly in blocks which are as they were when the file was counted."""
    return (line for span in sound_spans(file, content) for line in numbered(content, span))


def line_total(content: bytes, spans: Iterable[Span]) -> int:
    """The number of lines in spans of a content."""
    return sum(
        breaks(content, span.start, span.stop) + (content[span.stop - 1 : span.stop] not in b"\r\n")
        for span in spans
        if span.start < span.stop
    )


def sound_spans(file: HistoryFile, content: bytes) -> list[Span]:
    """The spans of lines that lie wholly in blocks which are as they were when the file was counted."""
    then, now = _unpacked(file.blocks), _checksums(content)
    sound = [block < len(then) and then[block] == now[block] for block in range(len(now))]
    if now and len(content) != file.bytes and len(content) % BLOCK:
        sound[-1] = False  # the end of a file that was cut or added to
    spans: list[Span] = []
    lines, place = 0, 0
    for is_sound, blocks in itertools.groupby(range(len(sound)), sound.__getitem__):
        first, *others = blocks
        start, stop = whole_lines(content, first * BLOCK, min(len(content), (others[-1] if others else first) * BLOCK + BLOCK))
        if is_sound and start < stop:
            lines, place = lines + breaks(content, place, start), start
            spans.append(Span(lines, start, stop))
    return spans


def _checksums(content: bytes) -> list[int]:
    return [zlib.crc32(content[start : start + BLOCK]) for start in range(0, len(content), BLOCK)]


def _packed(checksums: Iterable[int]) -> str:
    """Four bytes each, little-endian, as Base64."""
    return base64.b64encode(b"".join(crc.to_bytes(4, "little") for crc in checksums)).decode()


def _unpacked(blocks: str) -> list[int]:
    """Raises ValueError for what is no such text."""
    raw = base64.b64decode(blocks, validate=True)
    return [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
