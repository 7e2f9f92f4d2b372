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


def test_steps_that_join_the_same_two_operations_bend_apart():
    """The same two, by records of two partitions, and by another kind of edge."""
    document = cycle(2)
    document["edges"] += [{"from": 0, "to": 1, "kind": "wr", "why": ""}, {"from": 0, "to": 1, "kind": "ww", "why": "t-1"}]
    there = [arrow for arrow in drawing(document).arrows if arrow.x1 < arrow.x2]
    assert len({arrow.cy for arrow in there}) == len(there) == 3
    assert all(abs(a.y - b.y) > 20 for a in there for b in there if a is not b)


def test_operations_stand_in_the_order_of_the_steps_under_the_names_of_the_sentence():
    """The document names them in another order than the cycle has them."""
    steps = [{"from": a, "to": b, "kind": "ww", "why": ""} for a, b in ((5, 9), (9, 2), (2, 7), (7, 5))]
    drawn = drawing({"vertices": [5, 2, 7, 9], "edges": steps})
    assert [(node.name, node.operation) for node in drawn.nodes] == [("T1", 5), ("T2", 2), ("T3", 7), ("T4", 9)]
    place = {node.operation: (node.x, node.y) for node in drawn.nodes}
    assert place[5][1] < place[9][1] < place[2][1]
    assert place[7][0] < place[5][0] < place[9][0]


def test_a_long_cycle_is_no_wider_than_a_telephone():
    """It stands in two columns: down on the right, up on the left."""
    drawings = [drawing(cycle(count)) for count in range(7, MOST + 1)]
    assert all(drawn.width < 340 for drawn in drawings)
    down = [node.y for node in drawings[-1].nodes[1:13]]
    assert down == sorted(down)


def test_an_arrow_passes_operations_that_stand_between_its_ends():
    """From the second to the fifth of a column."""
    document = cycle(12)
    document["edges"].append({"from": 1, "to": 4, "kind": "rw", "why": ""})
    drawn = drawing(document)
    (passing,) = (arrow for arrow in drawn.arrows if arrow.kind == "rw")
    assert passing.x > drawn.nodes[2].x + 17 + 20


def test_a_tangle_is_drawn_at_once():
    """Every operation before every other one."""
    steps = [{"from": a, "to": b, "kind": "ww", "why": ""} for a in range(MOST) for b in range(MOST)]
    drawn = drawing({"vertices": list(range(MOST)), "edges": steps})
    assert len(drawn.arrows) == MOST * (MOST - 1)


def test_the_label_reads_the_cycle_aloud():
    """For those who do not see the drawing."""
    assert drawing(cycle(2)).label == "T1 before T2 (ww), T2 before T1 (ww)"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"vertices": [1, 1], "edges": [{"from": 1, "to": 1}]},
        {"vertices": [1, 2], "edges": [{"from": 1, "to": 1}]},
        {"vertices": [1], "edges": []},
        {"vertices": [1, 2], "edges": [{"from": 9}]},
        cycle(MOST + 1),
    ],
)
def test_what_cannot_be_drawn_is_left_out(odd):
    """The sentence says it all the same."""
    assert drawing(odd) is None
