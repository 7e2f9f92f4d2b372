"""The crossings: what goes together, the design that covers all pairs of values, and its campaign."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from support.build_tools import path_with_build_tools

from fencepost.harness.campaign.campaign import read
from fencepost.harness.matrix import crossed
from fencepost.harness.matrix.cells import Cell, all_cells
from fencepost.harness.matrix.covering import MOST, covered, covering_starts, design
from fencepost.harness.matrix.crossing import (
    Crossing,
    Start,
    Strike,
    crossing_of,
    pairs,
    possible_pairs,
    starts,
    strikes,
    strikes_at,
)
from fencepost.harness.matrix.factors import FACTORS, RULES, VALUES, excluded
from fencepost.nemesis.protocol import ProtocolStep

FILE = Path(__file__).parents[3] / "campaigns" / "matrix-crossed.toml"
START = Start(version="v1", client="java", group="classic", id="fenced")
STRIKE = Strike(cell=Cell(gap="end-txn", point="before", act="kill"), role="leader")
CROSSING = Crossing(strike=STRIKE, start=START)


def test_a_crossing_has_a_name_and_is_found_by_it():
    assert str(CROSSING) == "end-txn/before/kill/leader/v1/java/classic/fenced"
    assert crossing_of(str(CROSSING)) == CROSSING
    for wrong in (
        "end-txn/before/kill",
        str(CROSSING) + "/more",
        str(CROSSING).replace("java", "cobol"),
        "x/y/z/leader/v1/java/classic/fenced",
    ):
        assert crossing_of(wrong) is None


@pytest.mark.parametrize(
    ("given", "fired"),
    [
        (STRIKE, {"fire": "kill", "fire_target": "leader"}),
        (Strike(cell=STRIKE.cell, role="coordinator"), {"fire": "kill", "fire_target": "broker:{node}"}),
        (Strike(cell=STRIKE.cell, role="bystander"), {"fire": "kill", "fire_target": "controller"}),
        (
            Strike(cell=Cell(gap="produce", point="before", act="freeze"), role="coordinator"),
            {"fire_target": "coordinator:{transactional_id}"},
        ),
        (Strike(cell=Cell(gap="markers", point="before", act="freeze"), role="coordinator"), {"fire_target": "coordinator"}),
        (
            Strike(cell=Cell(gap="end-txn", point="before", act="move"), role="leader"),
            {"fire": "move-leaders", "fire_target": "all"},
        ),
        (Strike(cell=Cell(gap="produce", point="before", act="move"), role="coordinator"), {"fire": "move-coordinator"}),
    ],
    ids=str,
)
def test_the_role_is_the_target_of_what_is_fired(given, fired):
    fault = ProtocolStep(**given.options())
    assert {name: getattr(fault, name) for name in fired} == fired


def test_each_strike_at_each_start_is_a_fault_that_can_be_made():
    for strike in strikes():
        ProtocolStep(**Crossing(strike=strike, start=START).options())


def test_every_rule_has_a_reason_and_excludes_something():
    for rule in RULES:
        assert rule.reason
        assert any(
            excluded(dict(zip(rule.factors, values, strict=True))) == rule.reason
            for values in _products([[*VALUES[name]] for name in rule.factors])
        ), rule.reason


def _products(lists):
    return [[]] if not lists else [[value, *rest] for value in lists[0] for rest in _products(lists[1:])]


def test_what_does_not_go_together_is_in_no_crossing():
    assert excluded({"gap": "add-offsets", "group": "no-group"})
    assert excluded({"gap": "produce", "act": "lost", "role": "coordinator"})
    assert not excluded({"gap": "produce", "act": "lost", "role": "leader"})
    assert not any(crossing.impossible for block in design() for crossing in block.crossings)


def test_starts_cover_every_pair_of_their_own_values():
    chosen = covering_starts(Random(1))
    possible = {pair for start in starts() for pair in pairs(start.values)}
    assert {pair for start in chosen for pair in pairs(start.values)} == possible
    assert len(chosen) < len(starts()) / 3


def test_the_first_part_of_the_design_has_every_pair_of_values_that_can_be():
    first = [crossing for block in design() if block.part == 1 for crossing in block.crossings]
    assert covered(first) == possible_pairs()
    assert len(first) < len(strikes()) * len(starts()) / 20


def test_the_whole_design_has_each_cell_with_each_value_that_its_starts_can_have():
    every = [crossing for block in design() for crossing in block.crossings]
    met = {(str(crossing.strike.cell), value) for crossing in every for value in crossing.values.values()}
    chosen = {block.start for block in design()}
    possible = [Crossing(strike=each, start=start) for start in chosen for each in strikes_at(start)]
    wanted = {(str(crossing.strike.cell), value) for crossing in possible for value in crossing.values.values()}
    assert wanted <= met
    assert {crossing.strike.cell for crossing in every} == {cell for cell in all_cells() if not cell.impossible}


def test_no_crossing_comes_twice_and_no_test_is_too_long():
    every = [crossing for block in design() for crossing in block.crossings]
    assert len(every) == len(set(every))
    assert max(len(block.strikes) for block in design()) <= MOST


def test_the_seed_decides_the_design():
    assert covering_starts(Random(5)) == covering_starts(Random(5))
    assert covering_starts(Random(5)) != covering_starts(Random(6))
    assert design.__wrapped__() == design()


def test_pairs_are_of_different_factors_in_their_order():
    assert len(pairs(CROSSING.values)) == len(list(combinations(FACTORS, 2)))
    assert ("gap", "end-txn", "id", "fenced") in pairs(CROSSING.values)


def test_the_campaign_is_made_of_the_design():
    assert FILE.read_text() == crossed.text(), (
        "make it again: python -m fencepost.harness.matrix.campaign crossed > campaigns/matrix-crossed.toml"
    )


def test_the_campaign_names_each_crossing_once_and_makes_its_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", path_with_build_tools(tmp_path, os.environ["PATH"]))  # franz-go's client wants Go
    tests = read(FILE).tests
    planned = [[choice.options["cell"] for choice in test.nemesis if choice.kind == "protocol"] for test in tests]
    assert planned == [[str(crossing) for crossing in block.crossings] for block in design()]
    for test, block in zip(tests, design(), strict=True):
        start, kinds = block.start, {choice.kind for choice in test.nemesis}
        assert (test.workload.kind == "pipeline") == (start.group != "no-group")
        assert test.workload.options.get("protocol", "no-group") == start.group
        assert ("transaction-version" in kinds) == (start.version == "changing")
        assert test.cluster.options.get("features", {}).get("transaction.version", 2) == (1 if start.version == "v1" else 2)
        assert test.client.partition("@")[0] == start.client
