"""The judge as the harness knows it (`harness.api.services.Judge`). Spark is imported by the methods that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.harness.api.run import Run
from fencepost.harness.api.services import AnomalyRules, GraphColumns, Judge, SelfcheckRow


class SparkJudge(Judge):
    """Judges on a Spark session."""

    def import_spark(self) -> None:
        import fencepost.checkers.engine.session  # noqa: F401

    def start_session(self, master: str, conf: Mapping[str, str]) -> Any:
        from fencepost.checkers.engine.session import start_session

        return start_session(master, conf=conf)

    def warm(self, session: Any) -> None:
        from fencepost.checkers.verdict.warm_up import warm

        warm(session)

    def judge(
        self,
        run: Run,
        session: Callable[[], Any],
        contract: Mapping[str, str] | None,
        more: Mapping[str, Any],
        here: bool = False,
    ) -> dict[str, Any]:
        from fencepost.checkers.model.freed_memory import keep_freed_memory, release_freed_memory
        from fencepost.checkers.verdict.judge import judge
        from fencepost.checkers.views.run_view import NO_MASTER

        if not here:
            keep_freed_memory()
        document = judge(run, spark=session, contract=contract, more=more, here=here)
        if document["checker"]["master"] != NO_MASTER:  # a long history: its report needs as much memory again
            release_freed_memory()
        return document

    def graph(self, run: Run, session: Callable[[], Any], start: Sequence[int] | None, radius: int, most: int) -> GraphColumns:
        from fencepost.checkers.graph.history_graph import GATHERER, history_graph
        from fencepost.checkers.verdict.opening import view_of
        from fencepost.checkers.verdict.run_checks import gathering

        with gathering(view_of(run, session, here=True).view, [GATHERER]) as view:
            return history_graph(view, start, radius, most)

    def most_records_here(self) -> int:
        from fencepost.checkers.engine.placement import most_records

        return most_records()

    def selfcheck(
        self, run: Run | None, session: Callable[[], Any], seed: int, more: Mapping[str, Any] | None = None
    ) -> Sequence[SelfcheckRow]:
        from fencepost.checkers.engine.registry import installed_checks, with_more
        from fencepost.checkers.selfcheck.selfcheck import selfcheck

        return selfcheck(run, session, seed=seed, checks=with_more(*installed_checks(), more)[0] if more else None)

    def breaches(self, check: Any) -> list[str]:
        from fencepost.checkers.engine.validation import breaches

        return breaches(check)

    def never_forbidden(self, anomaly: str, contract: Mapping[str, str]) -> str:
        from fencepost.checkers.contract.rules import FORBIDDEN, full_contract, rule_for, rule_on_evidence
        from fencepost.checkers.engine.registry import installed_checks

        full = full_contract(contract)
        rules = next((check.rules for check in installed_checks()[0] if check.name == anomaly), ())
        first, last = rule_for(rules, full), rule_on_evidence(rules, full)
        return "" if FORBIDDEN in (first.judged, last.judged) else first.reason

    def permits_more(self, contract: Mapping[str, str], above: Mapping[str, str]) -> bool:
        from fencepost.checkers.contract.rules import full_contract, rule_for, rule_on_evidence
        from fencepost.checkers.engine.registry import installed_checks

        before, after = full_contract(contract), full_contract(contract, above)
        return any(
            decides(check.rules, before).judged != decides(check.rules, after).judged
            for check in installed_checks()[0]
            for decides in (rule_for, rule_on_evidence)
        )

    def promises(self) -> dict[str, list[str]]:
        from fencepost.checkers.engine.registry import installed_checks
        from fencepost.harness.api.promises import CLIENT_PROMISES, OTHER_PROMISES

        anomalies: dict[str, list[str]] = {promise: [] for promise in CLIENT_PROMISES}
        for check in installed_checks()[0]:
            if check.promise and check.promise not in OTHER_PROMISES:
                anomalies.setdefault(check.promise, []).append(check.name)
        return anomalies

    def rules(self, checks: Sequence[Any] | None = None) -> list[AnomalyRules]:
        from fencepost.checkers.engine.rules_table import rules_table

        return rules_table(checks)

    def judged_under(self, contract: Mapping[str, str]) -> Sequence[str]:
        from fencepost.checkers.contract.rules import INAPPLICABLE, rule_for
        from fencepost.checkers.engine.registry import installed_checks

        return [check.name for check in installed_checks()[0] if rule_for(check.rules, contract).judged != INAPPLICABLE]

    def fetch(self, session: Any, url: str, run_dir: Path, schema: Any) -> str:
        from fencepost.checkers.engine.remote import fetch

        return fetch(session, url, run_dir, schema)

    def contents(self, session: Any, history: str) -> tuple[dict[str, int], list[str]]:
        from fencepost.checkers.engine.remote import contents

        return contents(session, history)

    def bring(self, session: Any, run: Run, columns: Sequence[str], shown: Callable[[Any], Any], records: Iterable[int]) -> None:
        from fencepost.checkers.engine.remote import bring

        bring(session, run, columns, shown, records)
