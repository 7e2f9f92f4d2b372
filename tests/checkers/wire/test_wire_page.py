"""The page about the wire and its drawing are those that the data gives."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fencepost.checkers.wire.figure import PLACES, ROUTES, drawing, machine_graph
from fencepost.checkers.wire.page import with_tables
from fencepost.checkers.wire.states import Phase
from fencepost.checkers.wire.transitions import TRANSITIONS

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_has_the_tables_of_the_data():
    page = (DOCS / "wire.md").read_text()
    assert page == with_tables(page)
    assert all(f"| {transition.name} |" in page for transition in TRANSITIONS)


def test_a_page_without_a_mark_is_refused():
    with pytest.raises(ValueError, match="lacks the marks of columns"):
        with_tables("# Requests on the wire\n")


def test_the_drawing_is_current_and_has_every_phase():
    text = drawing()
    assert (DOCS / "wire-machine.svg").read_text() == text
    words = {element.text for element in ElementTree.fromstring(text).iter() if element.text}
    assert {phase.value for phase in PLACES} <= words
    assert set(PLACES) == set(Phase) - {Phase.UNKNOWN}


def test_every_way_from_one_phase_to_another_is_drawn():
    graph = machine_graph()
    assert set(graph.edges) == set(ROUTES)
    drawn = {name for _, _, names in graph.edges(data="names") for name in names}
    assert drawn == {transition.name for transition in TRANSITIONS if transition.to is not None}
