"""The lines of a Jepsen history as text: the same few words in EDN and in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

Records = dict[int, list[tuple[int | None, int]]]  # key -> (offset, value) of the records that one poll returned


class HistoryLine(NamedTuple):
    time: int
    number: int  # of equal times the earlier made comes first
    process: int | None
    type: str
    f: str
    value: str
    error: str = ""
    more: tuple[str, ...] = ()  # further keys with their values, in the language's words


class Edn:
    nothing = "nil"

    def true(self, key: str) -> str:
        return f", :{key} true"

    def false(self, key: str) -> str:
        return f", :{key} false"

    def text(self, text: str) -> str:
        return json.dumps(text)

    def sequence(self, parts: Sequence[Any]) -> str:
        return f"[{' '.join(map(str, parts))}]"

    def send(self, key: int, v: int) -> str:
        return f"[:send {key} {v}]"

    def sent(self, key: int, offset: int | None, v: int) -> str:
        return f"[:send {key} [{'nil' if offset is None else offset} {v}]]"

    def poll(self, records: Records | None) -> str:
        if records is None:
            return "[:poll]"
        got = ", ".join(f"{key} [{' '.join(f'[{offset} {v}]' for offset, v in pairs)}]" for key, pairs in records.items())
        return f"[:poll {{{got}}}]"

    def rebalances(self, log: Sequence[tuple[str, str]]) -> str:
        return f", :rebalance-log [{' '.join(f'{{:type :{word}, :keys {keys}}}' for word, keys in log)}]"

    def line(self, index: int, time: int, line: HistoryLine) -> str:
        process = ":nemesis" if line.process is None else line.process
        error = f", :error {json.dumps(line.error)}" if line.error else ""
        fields = f":type :{line.type}, :f :{line.f}, :value {line.value}"
        return f"{{{fields}, :time {time}, :process {process}, :index {index}{error}{''.join(line.more)}}}\n"


class Json:
    nothing = "null"

    def true(self, key: str) -> str:
        return f',"{key}":true'

    def false(self, key: str) -> str:
        return f',"{key}":false'

    def text(self, text: str) -> str:
        return json.dumps(text)

    def sequence(self, parts: Sequence[Any]) -> str:
        return f"[{','.join(map(str, parts))}]"

    def send(self, key: int, v: int) -> str:
        return f'["send",{key},{v}]'

    def sent(self, key: int, offset: int | None, v: int) -> str:
        return f'["send",{key},[{"null" if offset is None else offset},{v}]]'

    def poll(self, records: Records | None) -> str:
        if records is None:
            return '["poll"]'
        got = ",".join(f'"{key}":[{",".join(f"[{offset},{v}]" for offset, v in pairs)}]' for key, pairs in records.items())
        return f'["poll",{{{got}}}]'

    def rebalances(self, log: Sequence[tuple[str, str]]) -> str:
        entries = ",".join(f'{{"type":"{word}","keys":{keys}}}' for word, keys in log)
        return f',"rebalance-log":[{entries}]'

    def line(self, index: int, time: int, line: HistoryLine) -> str:
        process = '"nemesis"' if line.process is None else line.process
        error = f',"error":{json.dumps(line.error)}' if line.error else ""
        return (
            f'{{"index":{index},"time":{time},"type":"{line.type}","process":{process},"f":"{line.f}",'
            f'"value":{line.value}{error}{"".join(line.more)}}}\n'
        )
