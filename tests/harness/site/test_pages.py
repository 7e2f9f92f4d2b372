"""Pages by their size and policy: bounded whatever the runs hold, and running nothing but what they were written with."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.many_runs import entries, run_rows, settings

from fencepost.harness.memory.rows import FindingRow
from fencepost.harness.report.policy import page_policy
from fencepost.harness.site import pages, run_table
from fencepost.harness.site import settings as plan_settings
from fencepost.harness.site.pages import Site


def finding(number):
    return FindingRow(id=number, anomaly=f"a{number}", fingerprint=f"{number:012x}", sentence=f"{number} " + "x" * 2_000)


def test_pages_of_many_long_findings_and_settings_are_bounded(monkeypatch):
    """Two hundred runs with fifty long findings each, and five hundred long settings that no other run has."""
    monkeypatch.setattr(run_table, "MOST_SIZE", 1 << 20)
    monkeypatch.setattr(plan_settings, "MOST_SIZE", 1 << 20)
    many = tuple(map(finding, range(50)))
    rows = [replace(row, findings=tuple(replace(of, sentence=row.run + of.sentence) for of in many)) for row in run_rows(200)]
    own = {row.place: tuple((f"key {number}", f"{row.run} {number} " + "v" * 250) for number in range(500)) for row in rows}
    site = Site(entries=entries(rows))
    assert len(pages.index_page(site)) < 400_000
    assert 2 << 20 < len(pages.compare_page(site, own)) < 4 << 20


def test_a_thousand_runs_more_make_pages_a_quarter_of_a_megabyte_larger():
    """Ten thousand are a few megabytes."""
    sizes = []
    for count in (1_000, 2_000):
        rows = run_rows(count)
        site = Site(entries=entries(rows))
        sizes.append((len(pages.index_page(site)), len(pages.compare_page(site, settings(rows)))))
    assert max(two - one for one, two in zip(*sizes, strict=True)) < 350_000


@pytest.mark.parametrize("live", ["", "7"])
def test_a_page_names_no_other_host_and_connects_only_where_it_is_served(live):
    site = Site(entries=entries(run_rows(80)), live=live)
    for page in (pages.index_page(site), pages.grid_page(site), pages.findings_page(site), pages.compare_page(site, {})):
        policy = re.search(r'Security-Policy" content="(.*?)"', page)
        assert policy
        assert ("connect-src" in policy[1]) is bool(live)
        assert "unsafe" not in policy[1]
        assert len(re.findall("sha256-", policy[1])) == 1 + len(re.findall("<script>", page))
        assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', page)


def test_a_policy_allows_what_a_page_has_and_nothing_else():
    style = "'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='"
    assert page_policy("a") == f"default-src 'none'; style-src {style}; base-uri 'none'; form-action 'none'"
    assert "script-src 'sha256-" in page_policy("a", ["b"])
