"""What an answer needs of a history: a table of evidence for each anomaly, and what becomes of an answer without it.

Two kinds of need are declared. Where evidence is missing that may hold the anomaly, nobody can say that it did not happen:
`held` becomes `unknown`. Where evidence is missing without which a finding may be an effect of the gap, the finding proves
nothing: it is left out, and what is left without findings is `unknown`. A finding that no gap can explain stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fencepost.checkers.model.findings import Finding
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.checkers.verdict.rules import INAPPLICABLE
from fencepost.harness.api import record_ids
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.values import Property
from fencepost.harness.api.words import and_more, plural

SENDS, OUTCOMES, POLLS, POSITIONS = Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS
COMMITTED, UNCOMMITTED = Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED
FINAL = {COMMITTED, UNCOMMITTED}
READS = {POLLS, *FINAL}
NAMED = 3  # gaps or lines that a sentence names


Explains = Callable[[Gap, Finding, Mapping[str, str]], bool]


def _always(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    return True


@dataclass(frozen=True)
class Needs:
    """One row: which evidence an anomaly needs, each with the reason.

    absence: without it nobody can say that the anomaly did not happen; hidden: why. presence: without it a finding may be an
    effect of what is missing; doubtful: why. explains: whether one gap of such evidence may explain one finding.
    """

    absence: Collection[Evidence]
    hidden: str
    presence: Collection[Evidence] = ()
    doubtful: str = ""
    explains: Explains = _always


# --------------------------------------------------------------------------------------------------
# Which gap may explain which finding
# --------------------------------------------------------------------------------------------------
def _may_have_sent(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    """A file of one worker held the sends of that worker's processes only.

    A record without an identity of this run (its bytes are another's, or damaged) was sent by no line that is missing. Where
    identities are given to values (`values = "per key"`), every record of nobody has such a number, and it says nothing.
    """
    if contract["values"] != "unique":
        return True
    senders = {record_ids.process_of(row.v) for row in finding.rows if row.v >= 0}
    if gap.slot is None or not gap.slots:
        return bool(senders)
    return any(sender % gap.slots == gap.slot for sender in senders)


def _acknowledged_only(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    """Where two readers got different records at one offset, no lost acknowledgement explains it."""
    read = {(row.offset, row.v) for row in finding.records("read")}
    return len(read) == len({offset for offset, _ in read})


# --------------------------------------------------------------------------------------------------
# The table
# --------------------------------------------------------------------------------------------------
_LOST_PLACE = "whether an acknowledged record was lost, so that its offset was given away again, only the final read says"
_ANYBODY = "whoever is missing may have got or sent such a record"
_ANYBODY_OR_WHEN = f"{_ANYBODY}, or when transactions were decided is not known"
_ORDER = Needs(
    {SENDS, OUTCOMES, *FINAL}, "sends whose place is not known are not compared", {COMMITTED}, f"{_LOST_PLACE}: it has no place"
)
_ACROSS = Needs(
    {SENDS, *READS},
    "the consumer that is missing may have done so, and records of nobody are not compared",
    {POSITIONS},
    "a line that is missing may have moved the consumer",
)
_INSIDE = replace(_ACROSS, presence=(), doubtful="")  # what one operation returned stands in one line
_READ_CYCLE = Needs({SENDS, OUTCOMES, POLLS}, "an operation that is missing may close a cycle")
_ORDER_CYCLE = Needs(
    {SENDS, OUTCOMES, *READS},
    "an operation that is missing may close a cycle",
    {SENDS, *FINAL},
    "a record that is missing may lie between two others, and a lost one has no place",
)

NEEDS: dict[str, Needs] = {
    "lost-write": Needs(
        {SENDS, OUTCOMES, *FINAL},
        "promises that are missing were compared with nothing, and without a whole final read nobody knows what the log holds",
        FINAL,
        "the final read may have returned in a missing line what seems to be lost",
    ),
    "torn-transaction": Needs(
        {SENDS, OUTCOMES, COMMITTED},
        "transactions that are missing were compared with nothing, and nobody knows all that the final read returned",
        {COMMITTED},
        "the final read may have returned the other records in a missing line",
    ),
    "stale-read": Needs(
        {SENDS, POLLS, COMMITTED},
        "a reader that is missing may have got more before the final read began",
        {COMMITTED},
        "the final read may have returned in a missing line what it seems to lack",
    ),
    "phantom": Needs(
        READS,
        "a reader that is missing may have got one",
        {SENDS},
        "a line that is missing may have sent the record",
        _may_have_sent,
    ),
    "wrong-partition": Needs({SENDS, *READS}, _ANYBODY),
    "duplicate": Needs({SENDS, OUTCOMES, *READS}, _ANYBODY),
    "aborted-read": Needs({SENDS, OUTCOMES, POLLS, COMMITTED}, _ANYBODY),
    "dirty-read": Needs({SENDS, OUTCOMES, POLLS, COMMITTED, Evidence.DECISIONS}, _ANYBODY_OR_WHEN),
    "lso-overrun": Needs({SENDS, OUTCOMES, POLLS, COMMITTED, Evidence.DECISIONS}, _ANYBODY_OR_WHEN),
    "inconsistent-offset": Needs({SENDS, OUTCOMES, *READS}, _ANYBODY, {COMMITTED}, _LOST_PLACE, _acknowledged_only),
    "swallowed-write": Needs({SENDS, OUTCOMES, *READS}, _ANYBODY),
    **dict.fromkeys(("poll-skip", "nonmonotonic-poll"), _ACROSS),
    **dict.fromkeys(("int-poll-skip", "int-nonmonotonic-poll"), _INSIDE),
    **dict.fromkeys(("order-inversion", "real-time-inversion"), _ORDER),
    **dict.fromkeys(("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"), _ORDER),
    **{name + suffix: _READ_CYCLE for name in ("G1c-wr",) for suffix in ("", "-process", "-realtime")},
    **{name + suffix: _ORDER_CYCLE for name in ("G0", "G1c", "G-single", "G2") for suffix in ("", "-process", "-realtime")},
    "reprocessed": Needs({SENDS, OUTCOMES, *READS}, _ANYBODY),
    **dict.fromkeys(
        ("unprocessed", "torn-offset"),
        Needs(
            {SENDS, OUTCOMES, *READS, Evidence.SETTLING},
            "which records were processed, or which offsets the group had at the end, is not wholly known",
            {SENDS, OUTCOMES, COMMITTED},
            "what is missing may have processed the record, or shown that it was",
        ),
    ),
    "source-duplicate": Needs({COMMITTED}, "what is missing of the final read may hold it again"),
    "source-loss": Needs(
        {COMMITTED},
        "what is missing of the final read may be of a later position",
        {COMMITTED},
        "a line that is missing may have it",
    ),
    "source-offset-torn": Needs(
        {COMMITTED, Evidence.SETTLING},
        "not all that the leaders have is known",
        {COMMITTED, Evidence.SETTLING},
        "a line that is missing may hold the offset",
    ),
    "source-offset-regression": Needs({Evidence.SETTLING}, "not all stored offsets are known"),
    **dict.fromkeys(("zombie-task", "config-topic-writer"), Needs({Evidence.SETTLING}, "not all that the leaders have is known")),
    **dict.fromkeys(
        ("unfenced-start", "connect-promise"),
        Needs(
            {Evidence.SETTLING},
            "not all that the leaders have is known",
            {Evidence.SETTLING},
            "a line that is missing may hold the task-count record, or the fencing",
        ),
    ),
    "phantom-output": Needs(
        {SENDS, OUTCOMES, *READS}, _ANYBODY, {SENDS, *FINAL}, "a line that is missing may have sent or shown the input"
    ),
    "output-order": Needs({SENDS, *READS}, _ANYBODY, {COMMITTED}, "a line that is missing may have shown an earlier output"),
    "torn-state": Needs(
        {SENDS, *READS}, _ANYBODY, {SENDS, COMMITTED}, "a line that is missing may have shown the output in between"
    ),
    "store-divergence": Needs({Evidence.SETTLING}, "not all copies of the stores, and not all changelogs, are known"),
    "wrong-state": Needs(
        {SENDS, COMMITTED, Evidence.SETTLING},
        "not all inputs, and not all changelogs, are known",
        {SENDS, COMMITTED, Evidence.SETTLING},
        "a line that is missing may hold an input, or the changelog's last record",
    ),
    "vanished-output": Needs(
        {POLLS, COMMITTED}, _ANYBODY, {COMMITTED}, "the final read may have returned in a missing line what seems to be gone"
    ),
    **dict.fromkeys(("offset-regression", "stale-offset"), Needs({SENDS, OUTCOMES, *READS}, _ANYBODY)),
    "dirty-offset": Needs(
        {SENDS, OUTCOMES, POLLS, Evidence.DECISIONS},
        "whoever is missing may have been told such an offset, or when transactions were decided is not known",
        {SENDS, OUTCOMES, Evidence.DECISIONS},
        "a line that is missing may have committed the offset before",
    ),
    "double-ownership": Needs(
        {SENDS, OUTCOMES, *READS}, _ANYBODY, {POLLS}, "a line that is missing may have had the rebalance between the two commits"
    ),
    **dict.fromkeys(
        ("zombie-commit", "zombie-write"),
        Needs({SENDS, OUTCOMES, *READS, Evidence.DECISIONS}, "who is missing may have fenced others, or have been fenced"),
    ),
    "epoch-regression": Needs({Evidence.SENDS}, "who is missing may have been the instance before"),
    "wrong-error": Needs(
        {SENDS, OUTCOMES},
        "a call of a missing line may have raised a wrong error",
        {SENDS},
        "a line that is missing may have fenced the instance, or freed it",
    ),
    "false-ack": Needs(
        {SENDS, OUTCOMES, *FINAL},
        "promises that are missing were compared with nothing, and without whole final reads nobody knows what was committed",
        FINAL,
        "the final read may have returned in a missing line what seems to be aborted",
    ),
    "hanging-transaction": Needs({Evidence.SETTLING}, "nobody knows which transactions coordinators and leaders had open"),
    "misreported-transaction": Needs(
        {OUTCOMES, *READS, Evidence.SETTLING},
        "nobody knows all that coordinators and leaders answered, or all that contradicts it",
        {SENDS},
        "a line that is missing may have begun the transaction",
    ),
    "lso-stall": Needs({Evidence.SETTLING}, "nobody knows where the last stable offsets stood after healing"),
}
_EVERYTHING = frozenset(Evidence) - {Evidence.RECEIPTS}
PLUGIN = Needs(
    _EVERYTHING,
    "the check was added by a plug-in, and which evidence it needs is not known",
    _EVERYTHING,
    "the check was added by a plug-in, and what is missing may explain what it found",
)


def needs_of(anomaly: str) -> Needs:
    """The row of an anomaly; that of plug-ins when it has none."""
    return NEEDS.get(anomaly, PLUGIN)


# --------------------------------------------------------------------------------------------------
# Weakening
# --------------------------------------------------------------------------------------------------
def weaken(one: JudgedProperty, gaps: Sequence[Gap], contract: Mapping[str, str]) -> JudgedProperty:
    """A property's answer, as far as it stands without what the gaps have taken. contract: a full one."""
    if one.rule.judged == INAPPLICABLE:
        return one
    needs = needs_of(one.name)
    unreliable = [gap for gap in gaps if gap.kind is GapKind.UNRELIABLE]
    doubting = unreliable or [gap for gap in gaps if set(gap.evidence) & set(needs.presence)]
    explained = (bool(unreliable) or any(needs.explains(gap, finding, contract) for gap in doubting) for finding in one.findings)
    proven = [finding for finding, why in zip(one.findings, explained, strict=True) if not why]
    doubtful = len(one.findings) - len(proven)
    if doubtful:
        count = f"{plural(doubtful, 'finding proves', 'findings prove')} nothing"
        doubtful_for = "what is there may have been changed" if unreliable else needs.doubtful
        reason = "; ".join(filter(None, (one.reason, f"{count}, for {doubtful_for} ({_named(doubting)})")))
        verdict = Property.VIOLATED if proven else Property.UNKNOWN
        return replace(one, verdict=verdict, findings=proven, reason=reason, gaps=doubting)
    hiding = [gap for gap in gaps if gap.kind is not GapKind.UNATTESTED and set(gap.evidence) & set(needs.absence)]
    if not hiding or one.findings or one.verdict is Property.UNKNOWN or _never_exercised(one, needs, contract):
        return one
    return replace(one, verdict=Property.UNKNOWN, reason=f"{needs.hidden} ({_named(hiding)})", gaps=hiding)


def _never_exercised(one: JudgedProperty, needs: Needs, contract: Mapping[str, str]) -> bool:
    """Whether an anomaly of final reads had no chance to show in a history that has none by its nature."""
    finals_only = one.verdict is Property.NOT_EXERCISED and COMMITTED in needs.presence
    return finals_only and contract["final_read"] == "false"


def _named(gaps: Sequence[object]) -> str:
    return "; ".join(str(gap) for gap in gaps[:NAMED]) + and_more(len(gaps) - NAMED, "; and ")


# --------------------------------------------------------------------------------------------------
# In words
# --------------------------------------------------------------------------------------------------
def gap_sentences(gaps: Iterable[Gap], judged: Sequence[JudgedProperty]) -> list[str]:
    """What is missing, a sentence for each file, with the properties that are unknown for it."""
    by_file = groupby(sorted(gaps, key=lambda gap: (gap.file, gap.line)), key=lambda gap: gap.file)
    return [_sentence(list(group), judged) for _, group in by_file]


def _sentence(gaps: Sequence[Gap], judged: Sequence[JudgedProperty]) -> str:
    unknown = [one.name for one in judged if one.verdict is Property.UNKNOWN and not one.allowed and set(gaps) & set(one.gaps)]
    parts = [_named(gaps)]
    if any(Evidence.RECEIPTS in gap.evidence for gap in gaps):
        parts.append("what the faults did is not wholly known")
    elif unknown:
        parts.append(f"so it is unknown whether there was {', '.join(unknown)}")
    else:
        parts.append("no answer rests on it")
    return "; ".join(parts)
