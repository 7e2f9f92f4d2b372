"""Runs as the scripts of a page take them: one row each, packed into columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.harness.memory.rows import FindingRow
from fencepost.harness.page_text import shortened
from fencepost.harness.site.addresses import address, page_of_test
from fencepost.harness.site.columns import Texts, packed
from fencepost.harness.site.entries import Entry, round_label

LONGEST_CAUSE = 400  # characters of a sentence in a row
MOST_FINDINGS = 40  # of a run, in a comparison
MOST_SIZE = 6 << 20  # characters of the texts of findings on a page; behind them the anomaly stands alone


def run_rows(entries: Iterable[Entry]) -> dict[str, Any]:
    """The rows of the table of runs (`assets/rows.js` unpacks them)."""
    return packed([run_row(entry) for entry in entries])


def run_row(entry: Entry) -> dict[str, Any]:
    """A row of the table. Texts are text or empty, numbers may be missing."""
    row, finding = entry.row, entry.finding
    return {
        "place": row.place,
        "run": row.run,
        "campaign": row.campaign,
        "test": row.test,
        "page": page_of_test(row.campaign, row.test),
        "round": row.round,
        "label": round_label(row.round),
        "created": row.created[:19],
        "tone": entry.tone,
        "red": int(entry.red),
        "verdict": row.verdict,
        "outcome": entry.outcome,
        "anomalies": ", ".join(entry.anomalies),
        "cause": shortened(entry.cause, LONGEST_CAUSE),
        "finding": finding.id if finding else None,
        "fingerprints": " ".join(of.fingerprint for of in row.findings),
        "standing": entry.standing,
        "standing_words": entry.standing_words,
        "more": sum(of.count for of in row.findings) - 1 if finding else 0,
        "kafka": row.kafka,
        "client": row.client,
        "protocol": row.protocol,
        "workload": row.workload,
        "cluster": row.cluster,
        "seed": row.seed,
        "report": address(entry.report),
        "lack": entry.lack,
        "operations": row.operations,
        "faults": row.faults,
        "rate": row.rate,
        "gap_s": row.gap_s,
        "recovery_s": row.recovery_s,
    }


def finding_lists(entries: Sequence[Entry]) -> dict[str, Any]:
    """The findings of each run: fingerprint, anomaly and sentence (places of texts), its number, and how many there are."""
    texts = Texts()
    lists = [[_packed(finding, texts) for finding in entry.row.findings[:MOST_FINDINGS]] for entry in entries]
    return {"texts": texts.values, "of": lists}


def _packed(finding: FindingRow, texts: Texts) -> list[int]:
    sentence = shortened(finding.sentence, LONGEST_CAUSE) if texts.size < MOST_SIZE else ""
    named = (finding.fingerprint, finding.anomaly, sentence)
    return [*map(texts.place, named), finding.id, finding.count]
