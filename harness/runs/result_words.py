"""Results of runs in words: on the screen, in the summary of a round, in its `junit.xml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.harness.api.errors import Exit
from fencepost.harness.api.verdict_document import without_occasion
from fencepost.harness.runs.sequence import RunResult


def in_words(result: RunResult) -> str:
    """The outcome of one run as a sentence: `invalid, as expected: torn-transaction`."""
    if result.error:
        return f"{no_verdict(result)}: {result.error}"
    verdict, expect = str(result.verdict.get("verdict", "unknown")), result.planned.test.expect
    reason = str(result.verdict.get("reason", ""))
    if result.known_alone:
        return f"{verdict}, as expected but for known findings: {', '.join(result.violated)}"
    if result.met and expect == ("valid",):
        idle = without_occasion(result.verdict)
        return f"valid, as expected; {idle}" if idle else "valid, as expected"
    if result.met:
        return f"{verdict}, as expected: {', '.join(expect)}"
    if verdict == "unknown":
        return f"unknown: {reason}" if reason else "unknown"
    if verdict == "valid" and result.undecided:
        return f"valid, but {result.verdict.get('expectation') or 'not known whether as expected'}"
    if verdict == "valid":
        return f"valid, but expected was: {', '.join(expect)}"
    why = str(result.verdict.get("expectation", "")) if expect != ("valid",) else ""
    return f"invalid: {', '.join(result.violated) or reason}" + (f"; {why}" if why else "")


def no_verdict(result: RunResult) -> str:
    """The words for a run without a verdict."""
    return "harness error" if result.exit is Exit.HARNESS_BROKE else "no verdict"


def together(runs: Sequence[RunResult]) -> str:
    """All runs of one test in words: `2 of 5 hit: torn-transaction`. Why there is no verdict was said when the run ended."""
    if len(runs) == 1:
        return no_verdict(runs[0]) if runs[0].error else in_words(runs[0])
    met, expect = [run for run in runs if run.met], runs[0].planned.test.expect
    text = f"{len(met)} of {len(runs)} " + ("valid" if expect == ("valid",) else f"hit: {', '.join(expect)}")
    idle = sum(bool(without_occasion(run.verdict)) for run in met) if expect == ("valid",) else 0
    text += f", {idle} with properties held without occasion" if idle else ""
    others = list(
        dict.fromkeys(
            no_verdict(run) if run.error else in_words(run)
            for run in runs
            if not run.met and (run.error or run.verdict.get("verdict") != "valid")
        )
    )
    return "; ".join([text, *others])


def forbidden_findings(verdict: Mapping[str, Any]) -> int:
    """The number of violations of the contract; what it permits and was found all the same is in the report alone."""
    return sum(int(entry["count"]) for entry in verdict.get("properties", []))
