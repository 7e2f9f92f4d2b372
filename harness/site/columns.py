"""Rows as columns of JSON: each text is there once, however many rows have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.harness.visible_text import visible


def packed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows with the same keys as `{"count": n, "columns": {key: column}}`.

    A column of texts is `{"values": [...], "at": [...]}`, any other a list. Texts are `visible`.
    """
    names = rows[0].keys() if rows else ()
    return {"count": len(rows), "columns": {name: _column([row[name] for row in rows]) for name in names}}


def _column(values: list[Any]) -> Any:
    if not any(isinstance(value, str) for value in values):
        return values
    texts = Texts()
    return {"at": [texts.place(str(value)) for value in values], "values": texts.values}


class Texts:
    """Texts with a place each, in the order in which they came."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values: list[str] = []
        self.size = 0  # characters of all of them
        self._places: dict[str, int] = {}
        for value in values:
            self.place(value)

    def place(self, text: str) -> int:
        """The place of a text, which is added at its first use."""
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(visible(text))
            self.size += len(text)
        return self._places[text]
