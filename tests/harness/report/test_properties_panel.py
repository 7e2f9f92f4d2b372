"""The properties in the report: by promise, with what was not exercised folded by its reason."""

from __future__ import annotations

from support import report_example as example
from support.report_example import edited

from fencepost.harness.api.promises import ACKNOWLEDGED, CONNECTOR, ISOLATED, ONCE
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import render
from fencepost.harness.report.panels.properties import by_promise, properties, unexercised


def answer(name: str, verdict: str, promise: str = "", **fields: object) -> dict[str, object]:
    return {"name": name, "verdict": verdict, "promise": promise, "count": 0, "compared": 1} | fields


def test_broken_promises_come_first_then_the_order_of_the_rules_page():
    rows = properties(
        [
            answer("of-a-plug-in", "held", "letters arrive"),
            answer("duplicate", "held", ONCE),
            answer("dirty-read", "held", ISOLATED),
            answer("lost-write", "held", ACKNOWLEDGED),
            answer("aborted-read", "violated", ISOLATED),
            answer("strange", "no such word", ONCE),
        ]
    )
    groups = by_promise(rows)
    assert [group.promise for group in groups] == [ISOLATED, ONCE, ACKNOWLEDGED, "letters arrive"]
    assert [[row.name for row in group.rows] for group in groups[:2]] == [
        ["aborted-read", "dirty-read"],
        ["strange", "duplicate"],
    ]


def test_a_contract_is_said_once_where_several_rows_share_it():
    rows = properties([answer(name, "held", ONCE, contract=text) for name, text in (("a", "x"), ("b", "x"), ("c", "y"))])
    (group,) = by_promise(rows)
    assert [row.contract for row in group.rows] == ["x", "", "y"]


def test_what_was_not_exercised_for_one_reason_is_one_line():
    rows = properties(
        [
            *(
                answer(name, "not exercised", CONNECTOR, reason="no connector was judged")
                for name in ("source-loss", "zombie-task")
            ),
            answer("no-recovery", "not exercised", ACKNOWLEDGED, reason="no bound"),
            answer("odd", "not exercised"),
        ]
    )
    assert [(group.what, group.reason, len(group.rows)) for group in unexercised(rows)] == [
        ("no-recovery", "no bound", 1),
        (f"2 anomalies of “{CONNECTOR}”", "no connector was judged", 2),
        ("odd", "nothing was compared", 1),
    ]


def test_every_property_has_an_anchor_of_its_own(tmp_path):
    """An anomaly may be judged under two rules; a name from elsewhere may hold anything."""
    twice = [answer("lost-write", "held"), answer("lost-write", "violated"), answer("a b\"'>", "not exercised", reason="?")]
    text = render(open_run(edited(example.valid(tmp_path), properties=twice))).read_text("utf-8")
    for anchor in ("property-lost-write", "property-lost-write-1", "property-a-b-", "permitted-G0"):
        assert text.count(f'id="{anchor}"') == 1
    assert '<h3 id="not-exercised">Not exercised <span class="count">1 anomaly, so no claim is made</span></h3>' in text
