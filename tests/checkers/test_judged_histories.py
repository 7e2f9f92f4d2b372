"""Literal histories, judged by hand from what Kafka promises (KIP-98, KIP-101, KIP-679): `data/judged_*.txt`.

A case has a title, lines `key: value`, and a table (`support.history_tables`). Keys of a case: `contract` (laid over that of
transactions), `forbidden` and `allowed` (the anomalies that must be found; of cycles that Kafka permits only those that are named
count), `verdict`, `reason` (a part of it), `held`, `idle` (not exercised), `compared` (name=number), `found` (records as in the
docstrings), `sentence` (a part of some finding's), `note`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.histories import KEPT, answer, violated
from support.history_tables import HistoryTable, with_settling
from support.judging import judge_here

DATA = Path(__file__).parent / "data"
KEYS = ("contract", "forbidden", "allowed", "verdict", "reason", "held", "idle", "compared", "found", "sentence", "note")


@dataclass(frozen=True)
class Case:
    """One history with its judgement."""

    title: str
    table: list[str]
    says: dict[str, str]

    @classmethod
    def of(cls, text: str) -> Case:
        title, *lines = [line for line in text.splitlines() if line.strip()]
        pairs = [line.partition(": ") for line in lines if line.partition(":")[0] in KEYS]
        return cls(title, [line for line in lines if line.partition(":")[0] not in KEYS], {key: value for key, _, value in pairs})

    def names(self, key: str) -> list[str]:
        return sorted(filter(None, (word.strip() for word in self.says.get(key, "").split(","))))

    def pairs(self, key: str) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.says.get(key, "").split())


def cases() -> list[Case]:
    texts = [path.read_text().split("\n== ")[1:] for path in sorted(DATA.glob("judged_*.txt"))]
    return [Case.of(text) for group in texts for text in group]


def shown(findings, table):
    """The records of forbidden findings in the words of the tables."""
    names = {v: name for name, v in table.v.items()}
    records = [record for finding in findings if finding["forbidden"] for record in finding["records"] if record["v"] in names]
    return {
        (record["role"], names[record["v"]], "?" if record["offset"] is None else str(record["offset"])) for record in records
    }


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.title)
def test_a_history_is_judged_as_by_hand(tmp_path, case):
    table = HistoryTable(case.table)
    document = judge_here(tmp_path, with_settling(table.ops, table.settled), case.pairs("contract"))
    assert violated({"properties": document["properties"]}) == case.names("forbidden"), [
        f["sentence"] for f in document["findings"]
    ]
    for name in case.names("allowed"):
        assert answer(document, name)["verdict"] == "violated", name
    assert not case.says.get("verdict") or document["verdict"] == case.says["verdict"], document["reason"]
    assert case.says.get("reason", "") in document["reason"]
    for key, verdicts in (("held", KEPT), ("idle", {"not exercised"})):
        for name in case.names(key):
            assert answer(document, name)["verdict"] in verdicts, name
    assert {name: str(answer(document, name)["compared"]) for name in case.pairs("compared")} == case.pairs("compared")
    assert any(case.says.get("sentence", "") in row["sentence"] for row in document["findings"]) or "sentence" not in case.says
    if "found" in case.says:
        findings = pq.read_table(tmp_path / "anomalies.parquet").to_pylist()
        wanted = {(role, name, at) for role, name, at in re.findall(r"(sent|read|missing) ([\w-]+)@(\d+|\?)", case.says["found"])}
        assert shown(findings, table) == wanted
