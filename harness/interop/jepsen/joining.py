"""Operations that cross the border of a block: the few that one worker saw begin and another saw end."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.harness.api.evidence import Evidence, Gap
from fencepost.harness.interop.jepsen.operation_rows import OperationRows
from fencepost.harness.interop.jepsen.parsed_blocks import NOT_UNDERSTOOD, ParsedBlock, PlacedEvent
from fencepost.harness.interop.jepsen.planned_sends import WORKERS_LINE, compared, without_invocation


class Joining:
    """Goes through the parsed blocks in order. rows: by the number of the block to which an operation's invocation belongs."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: dict[int, tuple[int, PlacedEvent]] = {}
        self.rows: dict[int, OperationRows] = {}
        self.damage: list[Gap] = []

    def join(self, parsed_blocks: Sequence[ParsedBlock]) -> None:
        for number, parsed in enumerate(parsed_blocks):
            for completion in parsed.early:
                self._early(number, completion)
            for process in parsed.touched & self._open.keys():
                self._close(*self._open.pop(process), None)
            self._open.update({process: (number, seen) for process, seen in parsed.opened.items()})
        for number, seen in self._open.values():
            self._close(number, seen, None)

    def _early(self, number: int, completion: PlacedEvent) -> None:
        process = int(completion.event.process)
        if process in self._open:
            self._close(*self._open.pop(process), completion)
            return
        self.damage.append(without_invocation(self._file, completion.line, (Evidence.SENDS,)))
        self._close(number, completion, completion)

    def _close(self, number: int, invoked: PlacedEvent, completed: PlacedEvent | None) -> None:
        value = invoked.value if completed is None or completed.value is None else completed.value
        try:
            rows, ended = self.rows.setdefault(number, OperationRows()), completed or invoked
            rows.add(invoked.at, invoked.event, completed and completed.event, value, ended.at)
            if completed is not None:
                self.damage += compared((invoked.event.f, completed.event.f), invoked.value, value, self._file, completed.line)
        except NOT_UNDERSTOOD as error:
            gap = Gap(file=self._file, line=(completed or invoked).line, why=f"not understood ({error})", evidence=WORKERS_LINE)
            self.damage.append(gap)
