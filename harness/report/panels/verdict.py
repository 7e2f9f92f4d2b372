"""The top of the page: the verdict as a sentence, the facts of the run, and the counts that the verdict rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.evidence import GapKind
from fencepost.harness.api.expectations import anomaly_and_word
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.values import Property, Verdict
from fencepost.harness.api.verdict_document import judgement_terms
from fencepost.harness.api.words import plural
from fencepost.harness.history.roster import CUT_OFF
from fencepost.harness.memory.remembered import sentences
from fencepost.harness.page_text import at, duration, number, plain
from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.panels import faults

_LOST = {kind.value for kind in (GapKind.MISSING, GapKind.EMPTIED, GapKind.SHORTENED, GapKind.UNREADABLE, GapKind.UNRELIABLE)}
_LONG = 320  # letters of a reason: of a longer one the page shows the beginning, and folds the whole


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The verdict for a reader with ten seconds. `tone` is good, shown, bad or unsure.

    reason: the beginning of a long one; whole: all of it, where that is more.
    """

    tone: str
    word: str
    title: str
    expectation: str
    reason: str
    whole: str
    first: tuple[tuple[int, str, str], ...]  # (finding id, when, sentence), the first of each violated property


@dataclass(frozen=True, kw_only=True)
class Lacks:
    """What a run lacks, a sentence each; the first is shown, the others are folded."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A count that the verdict rests on. link: the id of the part of the page that its note is about."""

    label: str
    value: str
    note: str = ""
    link: str = ""


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {
        "headline": headline(run),
        "facts": facts(run),
        "tiles": tiles(run),
        "lacks": lacks(run),
        "notes": run.notes,
        "remembered": sentences(run.remembered),
    }


def lacks(run: ReportData) -> Lacks:
    """What a run lacks: the history, what weakens the verdict, what this page could not read."""
    sentences = (*(plain(why) for why in run.verdict.get("weakened", ())), *run.notes)
    if incomplete := _incomplete(run.verdict):
        return Lacks(title=incomplete[0], sentences=(incomplete[1], *sentences))
    return Lacks(title="Weaker than it looks:" * bool(run.verdict.get("weakened")), sentences=sentences)


def _incomplete(verdict: Doc) -> tuple[str, str] | None:
    """What the history lacks, in one sentence, with its title; None where `weakened` says it in one."""
    gaps = verdict.get("gaps") or ()
    cut_off = any(gap.get("file") == RunFile.MANIFEST and str(gap.get("why")).startswith(CUT_OFF) for gap in gaps)
    lost = [gap for gap in gaps if gap.get("kind") in _LOST]
    files, lines = len({gap.get("file") for gap in lost}), sum(gap.get("lines") or 0 for gap in lost)
    if files < 2 and not cut_off:
        return None
    title = "The run was cut off:" if cut_off else "The history is incomplete:"
    if not files:
        return title, "nobody counted what its last seconds wrote."
    unknown = sum(row.get("verdict") == Property.UNKNOWN.value for row in verdict.get("properties", ()))
    words = plural(files, "file is missing, damaged or cut short", "files are missing, damaged or cut short")
    words += f" ({plural(lines, 'line')})" if lines else ""
    return title, f"{words}; {plural(unknown, 'property is', 'properties are')} unknown." if unknown else f"{words}."


def headline(run: ReportData) -> Headline:
    verdict, properties = run.verdict, run.verdict.get("properties", ())
    word = str(verdict.get("verdict", Verdict.UNKNOWN.value))
    met = verdict.get("expectation_met", word == Verdict.VALID.value)
    wanted = [str(name) for name in verdict.get("expect", ())]
    tone, title, expectation = _words(word, met, wanted, properties, plain(verdict.get("expectation", "")))
    reason = verdict.get("reason", "")
    beginning = _beginning(reason)
    return Headline(
        tone=tone,
        word=word,
        title=title,
        expectation=expectation,
        reason=beginning,
        whole=reason if beginning != reason else "",
        first=_first(run),
    )


def _beginning(reason: str) -> str:
    """A reason up to a boundary of its parts or words, if it is long."""
    if len(reason) <= _LONG:
        return reason
    part = reason[: _LONG // 2] + reason[_LONG // 2 : _LONG].rpartition("; ")[0]
    return f"{part if len(part) > _LONG // 2 else reason[:_LONG].rpartition(' ')[0] or reason[:_LONG]} …"


def _words(word: str, met: bool | None, wanted: list[str], properties: list[Doc], compared: str) -> tuple[str, str, str]:
    """(tone, title, what was expected) for each meeting of verdict and expectation.

    met: None where nobody knows. compared: the verdict's own words of both.
    """
    violated = [p["name"] for p in properties if p.get("verdict") == Property.VIOLATED.value]
    expects_bug = bool(wanted) and wanted != [Verdict.VALID.value]
    expects = ", ".join(wanted) or Verdict.VALID.value
    if word == Verdict.INVALID.value and met:
        expectation = f"This test expects {expects}: found{', ' * bool(compared)}{compared}. That is a success."
        return "shown", "Invalid, as this test expects", expectation
    if word == Verdict.INVALID.value and met is None:
        return "unsure", "Invalid, and not known whether only as this test expects", f"This test expects {expects}; {compared}."
    if word == Verdict.INVALID.value:
        difference = compared if expects_bug and compared else _besides(wanted, violated)
        return "bad", f"Invalid: {_broken(properties)}", f"This test expects {expects}; {difference}."
    if word == Verdict.VALID.value and met:
        return *_held_properties(properties), "As this test expects."
    if word == Verdict.VALID.value and met is None:
        left = "not found, and not excluded" if expects_bug else "so it is as far as it went"
        return "unsure", f"Valid as far as it went: {compared}", f"This test expects {expects}: {left}."
    if word == Verdict.VALID.value:
        return "bad", "Valid, but this test expects otherwise", f"This test expects {expects}: not found this time."
    expected = "As this test expects." if met else f"This test expects {expects}; it is not known whether that is so."
    if expects_bug and not met:
        expected = f"This test expects {expects}: not found, and not excluded."
    return "unsure", "Unknown: the run does not allow a verdict", expected


def _held_properties(properties: list[Doc]) -> tuple[str, str]:
    """(tone, title) of a valid run: how much of what held had an occasion to be broken."""
    kept = [p for p in properties if p.get("verdict") == Property.HELD.value]
    idle = sum(p.get("verdict") == Property.WITHOUT_OCCASION.value for p in properties)
    counts = [tuple(p["occasions"].values()) for p in kept if p.get("occasions")]
    unknown = sum(not any(some) for some in counts)
    of = f"of {plural(idle + len(kept), 'property', 'properties')}"
    parts = [f"{idle} {of} held without occasion"] if idle else []
    parts += [f"of {unknown} nobody knows whether there was an occasion"] if unknown else []
    if not parts:
        return "good", "Valid: every promise that was tested held"
    if any(map(any, counts)):
        return "good", f"Valid: what was tested held; {', '.join(parts)}"
    return "unsure", f"Valid, but nothing is known to have occurred that breaks promises: {', '.join(parts)}"


def _broken(properties: list[Doc]) -> str:
    """The promises that were broken, by name where the verdict names them (since 0.2), else one for each anomaly."""
    violated = [p for p in properties if p.get("verdict") == Property.VIOLATED.value]
    names = list(dict.fromkeys(str(p["promise"]) for p in violated if p.get("promise")))
    if not violated:
        return "a promise was broken"
    return f"{plural(len(names or violated), 'promise was', 'promises were')} broken{': ' * bool(names)}{'; '.join(names)}"


def _besides(wanted: list[str], violated: list[str]) -> str:
    """The difference between the anomalies that were found and those that were expected."""
    wanted = [anomaly_and_word(text)[0] for text in wanted]
    absent = [name for name in wanted if name not in violated]
    if wanted == [Verdict.VALID.value] or not wanted:
        return "it was not"
    return (
        f"not found: {', '.join(absent)}"
        if absent
        else f"found besides: {', '.join(name for name in violated if name not in wanted)}"
    )


def _first(run: ReportData) -> tuple[tuple[int, str, str], ...]:
    seen: dict[str, tuple[int, str, str]] = {}
    for finding in run.findings:
        if finding.get("forbidden", True):
            first = (finding.get("id", 0), at(finding.get("time"), run.origin_ns), finding.get("sentence", ""))
            seen.setdefault(finding.get("anomaly", ""), first)
    return tuple(seen.values())


def tiles(run: ReportData) -> tuple[Tile, ...]:
    counts = run.verdict.get("counts", {})

    def count(name: str) -> str:
        return number(counts.get(name))

    made = [
        Tile(
            label="operations", value=count("operations"), note=f"{count('ok')} ok · {count('fail')} fail · {count('info')} info"
        )
    ]
    if connected(run):
        made.append(Tile(label="records of the connector", value=number(compared(run, "source-duplicate")), note="read back"))
        note = f"{number(compared(run, 'source-offset-regression'))} stored offsets"
        made.append(Tile(label="in the leaders' logs", value=number(compared(run, "source-offset-torn")), note=note))
    else:
        ended = f"{count('committed')} committed · {count('aborted')} aborted"
        made.append(Tile(label="transactions", value=count("transactions"), note=ended))
        made.append(
            Tile(label="records sent", value=count("sent"), note=f"to {plural(counts.get('partitions', 0), 'partition')}")
        )
        made.append(Tile(label="records read", value=count("read"), note=f"{count('final_read')} more in the final read"))
    made.append(Tile(label="faults", value=count("faults"), note=_effect(run)))
    return (*made, *_stall(run))


def _stall(run: ReportData) -> list[Tile]:
    """The longest time without a success, with the fault during which it was and that fault's own recovery."""
    progress = run.verdict.get("progress") or {}
    longest = progress.get("longest_gap_s")
    if not longest:
        return []
    struck = {fault["id"]: fault for fault in run.faults or () if fault.get("injected_ns")}
    measured = progress.get("faults") or ()
    worst = next((each for each in measured if each.get("gap_s") == longest and each.get("id") in struck), None)
    if worst is None:
        around = "no fault was active" if struck and measured and not run.receipts_lost else ""
        return [Tile(label="longest stall", value=duration(longest * 1e9), note=around)]
    fault = struck[worst["id"]]
    note = f"during fault {fault['id']}, {faults.name(fault)}; {_recovered(fault, worst.get('recovery_s'))}"
    return [Tile(label="longest stall", value=duration(longest * 1e9), note=note, link=faults.anchor_of(fault))]


def _recovered(fault: Doc, recovery_s: float | None) -> str:
    """The recovery from a fault, in words."""
    if not fault.get("healed_ns"):
        return "it was not healed"
    return "no success after healing" if recovery_s is None else f"success {duration(recovery_s * 1e9)} after healing"


def connected(run: ReportData) -> bool:
    """Return whether the records are a connector's."""
    return compared(run, "source-duplicate") > 0


def compared(run: ReportData, name: str) -> int:
    """The number of comparisons for an anomaly."""
    rows = (*run.verdict.get("properties", ()), *run.verdict.get("allowed", ()))
    return max((int(answer.get("compared") or 0) for answer in rows if answer.get("name") == name), default=0)


def _effect(run: ReportData) -> str:
    """The effects of the faults, in a few words."""
    if run.faults is None:
        return "no receipts could be read"
    missed = len(faults.never_struck(run))
    if not run.faults and not missed:
        return "nothing was broken on purpose"
    counts = (
        (sum(fault.get("effective") is False for fault in run.faults), "without effect"),
        (sum(fault.get("effective") is None for fault in run.faults), "not proven"),
        (missed, "more never struck" if run.faults else "never struck"),
        (sum(bool(fault.get("injected_ns")) and not fault.get("healed_ns") for fault in run.faults), "not healed"),
        (sum(bool(faults.ended_early(fault)) for fault in run.faults), "ended early"),
    )
    parts = [f"{count:,} {words}" for count, words in counts if count] + ["receipts are missing"] * run.receipts_lost
    return " · ".join(parts) or "all took effect"


def _names(services: Any) -> list[str]:
    """The names of declared outside services; none where a plan has none."""
    return [str(name) for name in services] if isinstance(services, Mapping) else []


def facts(run: ReportData) -> tuple[tuple[str, str], ...]:
    """The line under the title: (label, value)."""
    plan, client = run.plan, run.plan.get("client", {})
    readers = client.get("readers") or {}
    description = run.plan.get("cluster", {}).get("description", {})
    spent = run.end_ns - run.origin_ns
    lines = [
        ("test", run.verdict.get("test") or plan.get("test")),
        ("campaign", run.verdict.get("campaign") or plan.get("campaign")),
        ("run", run.verdict.get("run") or plan.get("run")),
        ("judged by", judgement_terms(run.verdict)),
        ("Kafka", description.get("kafka")),
        ("second cluster", ", ".join(description.get("second", {}).get("brokers", ()))),
        ("outside services", ", ".join(_names(description.get("services")))),
        ("client", " ".join(plain(client[key]) for key in ("kind", "version") if client.get(key))),
        ("readers", " ".join(plain(readers[key]) for key in ("kind", "version") if readers.get(key))),
        ("transactions", run.transaction_protocol),
        ("seed", plan.get("seed")),
        ("lasted", duration(spent) if spent else None),
        ("started", plan.get("created")),
    ]
    return tuple((label, str(value)) for label, value in lines if value not in (None, ""))
