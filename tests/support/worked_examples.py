"""The worked examples in the docstrings of the checks."""

from __future__ import annotations

import inspect
import re

from support.history_tables import MS, HistoryTable


class Example(HistoryTable):
    """The example of one check, as operations in partitions, processes and a second of its own."""

    def __init__(self, number, check):
        self.text = inspect.getdoc(check.function)
        super().__init__(self._table(), f"e{number}", number * 20, (1 + number) * 1_000 * MS)

    def _table(self):
        lines = self.text.splitlines()
        first = next(at for at, line in enumerate(lines) if re.match(r" +ms +process", line))
        last = next(at for at, line in enumerate(lines) if at > first and not line.strip())
        return lines[first:last]

    def expected(self):
        """Records of the finding that the text names: (sent, read or missing; record or partition; offset)."""
        (answer,) = re.findall(r"^Found: (.*?)\n\n", self.text, flags=re.MULTILINE | re.DOTALL)
        return {(role, name, int(offset)) for role, name, offset in re.findall(r"(sent|read|missing) ([\w:-]+)@(\d+)", answer)}

    def as_worded(self, findings):
        """Findings in the words of the text; without the row of a final read that returned nothing."""
        names = {v: name for name, v in self.v.items()}
        records = [record for finding in findings for record in finding["records"] if record["offset"] is not None]
        return {
            (record["role"], names.get(record["v"], self._partition(record["partition"])), record["offset"]) for record in records
        }

    def _partition(self, name):
        """A partition by its name in the text."""
        return name.replace(f"{self.topic}-in", "in").replace(f"{self.topic}-out", "out").replace(self.topic, "t")
