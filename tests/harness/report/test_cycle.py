"""The drawing of a cycle: numbers from a finding, nothing from a browser."""

import pytest

from fencepost.harness.report.cycle import MOST, drawing


def cycle(count):
    steps = [{"from": at, "to": (at + 1) % count, "kind": "ww", "why": f"{at} <b>"} for at in range(count)]
    return {"vertices": list(range(count)), "edges": steps}


@pytest.mark.parametrize("count", [2, 3, 7, MOST])
def test_everything_lies_inside_the_box_and_apart(count):
    """Operations do not cover each other, and arrows join them all."""
    drawn = drawing(cycle(count))
    assert len(drawn.nodes) == len(drawn.arrows) == count
    assert all(0 < node.x < drawn.width and 0 < node.y < drawn.height for node in drawn.nodes)
    assert all(0 < arrow.x < drawn.width and 0 < arrow.y < drawn.height for arrow in drawn.arrows)
    places = [(node.x, node.y) for node in drawn.nodes]
    assert all(abs(a - c) + abs(b - d) > 40 for a, b in places for c, d in places if (a, b) != (c, d))


def test_a_step_and_its_return_do_not_lie_on_one_another():
    """Each bends to its left."""
    there, back = drawing(cycle(2)).arrows
    assert there.cy < there.y1 < back.cy


def test_the_label_reads_the_cycle_aloud():
    """For those who do not see the drawing."""
    assert drawing(cycle(2)).label == "T1 before T2 (ww), T2 before T1 (ww)"


@pytest.mark.parametrize(
    "odd", [None, {}, {"vertices": [1], "edges": []}, {"vertices": [1, 2], "edges": [{"from": 9}]}, cycle(MOST + 1)]
)
def test_what_cannot_be_drawn_is_left_out(odd):
    """The sentence says it all the same."""
    assert drawing(odd) is None
