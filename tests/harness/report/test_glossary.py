"""Terms and proposals as links; whatever else a text holds stays text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencepost.harness.report.glossary import TERMS, explained, kip_address, used


def test_proposals_are_links_to_their_pages_and_terms_to_the_glossary():
    text = explained("the last stable offset reaches the high watermark (KIP-98)")
    assert '<a class="term" href="#term-lso">last stable offset</a>' in text
    assert '<a class="term" href="#term-high-watermark">high watermark</a>' in text
    assert f'(<a href="{kip_address(98)}" rel="noreferrer">KIP-98</a>)' in text


def test_a_term_is_a_link_once_in_a_text():
    assert explained("a marker, and a marker").count("<a ") == 1


@pytest.mark.parametrize("text", ["bookmarkers", "t-marker", "KIP", "informed", "nothing of note"])
def test_other_words_are_no_terms(text):
    assert explained(text) == text


def test_a_term_is_no_link_to_itself():
    assert explained("the LSO, and the high watermark", "lso").count("<a ") == 1


def test_markup_stays_text_and_backticks_are_code():
    assert explained("<b> `marker <i>` \u202e") == "&lt;b&gt; <code>marker &lt;i&gt;</code> \\u202e"


def test_an_unknown_proposal_leads_to_the_list_of_all():
    assert kip_address(9999).endswith("/Kafka+Improvement+Proposals")


def test_a_page_has_the_terms_that_it_uses_and_those_that_these_need():
    assert used(["nothing"]) == ()
    names = {term.id for term in used(["the LSO"])}
    assert {"lso", "read-committed"} <= names
    assert names < {term.id for term in TERMS}


def test_terms_have_plain_ids_and_no_two_the_same():
    ids = [term.id for term in TERMS]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z-]+", name) for name in ids)


def test_every_proposal_of_the_contracts_has_its_page():
    """A promise that a reader cannot look up is half a promise."""
    rules = (Path(__file__).parents[3] / "docs" / "rules.md").read_text("utf-8")
    named = {int(number) for number in re.findall(r"KIP-(\d+)", rules)}
    assert {number for number in named if kip_address(number).endswith("Proposals")} == set()
