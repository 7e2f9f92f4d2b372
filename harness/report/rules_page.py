"""Rules of anomalies in Markdown: `fencepost plugins --rules`, and docs/rules.md.

The page is made by `python -m fencepost.harness.report.rules_page > docs/rules.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.services import AnomalyRules
from fencepost.harness.plugins import services

_HEAD = """# Rules: when an anomaly is forbidden

<!-- Made by `python -m fencepost.harness.report.rules_page > docs/rules.md`; do not edit. -->

The rules of an anomaly are declared by its check (`checkers/anomalies/`), and tried from the first to the last: the first whose
conditions hold under the run's contract decides. A condition names a key of the
[contract](campaign-reference.md#testcontract).

* *inapplicable*: the anomaly is not judged.
* *to be exercised*: a run that compared nothing for it is *unknown*.
* *(unless reads show it)*, *(unless final reads show it)*: where what readers got, or the final reads, shows a finding by
  itself, the next rule without such words decides about it; likewise for deletions of topics.
  *(unless read_uncommitted final reads show it)*: where a record is missing there, too. *(unless read_committed reads show it)*:
  where such a reader got the record that is missing. *(unless leaders' logs show it)*: where no aborted record in the log of a
  changelog explains the value. *(unless answers to members show it)*: where no fault took an
  offset of the group back, and the member was told no lower one.
* *Occasions*: a property that held while none of these occurred is *held without occasion* ([occasions.md](occasions.md)).
* *Evidence*: the parts of a run's record without which *held* becomes *unknown*, and those without which a finding is not
  believed. Their names are in the table below.
* *Damages*: the ways in which `fencepost selfcheck` spoils a correct history, to show that the check finds this anomaly and no
  other.

| evidence | what it is |
|---|---|
{evidence}

`fencepost plugins --rules` prints this table with the rules of your own checks. The anomalies are defined in
[anomalies.md](anomalies.md).
"""


def head() -> str:
    """The beginning of the page: what its words mean."""
    lines = [line.strip().partition(": ") for line in (Evidence.__doc__ or "").splitlines()]
    named = {each.value for each in Evidence}
    return _HEAD.format(evidence="\n".join(f"| `{name}` | {meaning} |" for name, _, meaning in lines if name in named))


def page(rows: Sequence[AnomalyRules]) -> str:
    """A section per promise, a table per anomaly. rows: in the order of their promises."""
    sections = (f"## {promise or 'of plug-ins'}\n\n{_anomalies(list(some))}" for promise, some in groupby(rows, _promise))
    return "\n\n".join(sections)


def _promise(row: AnomalyRules) -> str:
    return row.promise


def _anomalies(rows: Sequence[AnomalyRules]) -> str:
    return "\n\n".join(_anomaly(row) for row in rows)


def _anomaly(row: AnomalyRules) -> str:
    lines = [f"### {row.anomaly}", "", row.definition, "", "| when | verdict | reason |", "|---|---|---|"]
    lines += [f"| {when or 'else'} | {judged} | {reason} |" for judged, when, reason in row.rules]
    lines += ["", f"Occasions: {', '.join(row.occasions) or 'whatever is compared'}."]
    lines += ["", f"Evidence: {_evidence(row)}. Damages: {', '.join(row.damages) or 'none'}."]
    return "\n".join(lines)


def _evidence(row: AnomalyRules) -> str:
    doubtful = f"; a finding proves nothing without {', '.join(row.presence)}" if row.presence else ""
    return f"*held* needs {', '.join(row.absence)}{doubtful}"


def own_rules() -> list[AnomalyRules]:
    """The rows of the checks that come with fencepost."""
    return [row for row in services.judge().rules() if row.promise]


if __name__ == "__main__":
    print(f"{head()}\n{page(own_rules())}")  # noqa: T201
