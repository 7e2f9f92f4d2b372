"""Brokers over time: only what receipts and logs say."""

from __future__ import annotations

import json

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.brokers import Placement, held, known, rows
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page


def run_with(folder, faults):
    operations = example.ordered([example.op(0, 0, 0, 10), example.op(1, 0, 19_990, 10)])
    return read(open_run(example.write(folder, example.plan(), example.verdict(operations, faults), operations, faults)))


def test_a_role_is_known_at_the_moment_at_which_a_fault_looked_for_it(tmp_path):
    faults = [
        example.fault(0, "kill", 4, 3, targets=["n2"], role="leader:t-0"),
        example.fault(1, "pause", 12, 3, targets=["n10"], role="controller"),
        example.fault(2, "pause", 16, 1, targets=["n2"], role="random"),
        example.fault(3, "kill", 17, 1, targets=["c0"], role="client"),
    ]
    made = page(run_with(tmp_path, faults)).timeline["brokers"]
    assert [(row["node"], row["sought"], row["faults"], row["held"]) for row in made] == [
        ("n2", [[4_000_000, "leader:t-0"]], [0, 2], []),
        ("n10", [[12_000_000, "controller"]], [1], []),
    ]
    assert known(made).startswith("Roles of brokers are known only at the moments")


def test_a_cut_strikes_the_brokers_at_its_ends_and_clients_are_no_brokers(tmp_path):
    cut = example.fault(0, "cut", 4, 3, targets=[], role="clients", pairs=["c0>n1", "n3>c1"])
    made = page(run_with(tmp_path, [cut])).timeline["brokers"]
    assert [(row["node"], row["faults"]) for row in made] == [("n1", [0]), ("n3", [0])]
    assert known(made) == "No receipt and no log says which broker led, controlled or coordinated."


def test_a_fault_that_never_struck_says_nothing(tmp_path):
    never = example.fault(0, "kill", 4, None, targets=["n2"], role="leader") | {"injected_ns": 0}
    assert page(run_with(tmp_path, [never])).timeline["brokers"] == []


def test_nodes_that_were_probed_are_rows_without_faults(tmp_path):
    fault = example.fault(
        0, "kill", 4, 3, targets=["n2"], role="random", reach={"nodes": ["n1", "n2", "c0"], "before": [], "during": []}
    )
    made = page(run_with(tmp_path, [fault])).timeline["brokers"]
    assert [(row["node"], row["faults"]) for row in made] == [("n1", []), ("n2", [0])]


T = "__transaction_state-"


@pytest.mark.parametrize(
    ("placements", "segments"),
    [
        ([], {}),
        ([(5, "leader", "t-0", "n1")], {"n1": [(5, 100, "leads t-0", "leads t-0")]}),
        (  # another broker takes over; what it had before goes on
            [(5, "leader", "t-0", "n1"), (7, "leader", "t-1", "n2"), (20, "leader", "t-0", "n2")],
            {
                "n1": [(5, 20, "leads t-0", "leads t-0")],
                "n2": [(7, 20, "leads t-1", "leads t-1"), (20, 100, "leads t-0 t-1", "leads t-0 t-1")],
            },
        ),
        (  # elected again: nothing changes
            [(5, "leader", "t-0", "n1"), (30, "leader", "t-0", "n1")],
            {"n1": [(5, 100, "leads t-0", "leads t-0")]},
        ),
        (
            [(5, "controller", "", "n1"), (5, "coordinator", T + "4", "n1"), (9, "coordinator", T + "17", "n1")],
            {
                "n1": [
                    (5, 9, "controller, coordinates 4", "controller; coordinates 4 of __transaction_state"),
                    (9, 100, "controller, coordinates 4 17", "controller; coordinates 4 17 of __transaction_state"),
                ]
            },
        ),
        (  # many are counted
            [(5, "leader", f"t-{n}", "n1") for n in range(12)],
            {"n1": [(5, 100, "leads 12", "leads " + " ".join(f"t-{n}" for n in range(12)))]},
        ),
    ],
)
def test_roles_last_from_one_placement_to_the_next(placements, segments):
    made = held([Placement(at=at, role=role, name=name, node=node) for at, role, name, node in placements], 100)
    assert {node: stretches for node, stretches in made.items() if stretches} == segments


def test_placements_become_rows(tmp_path):
    run = run_with(tmp_path, [])
    placement = Placement(at=run.origin_ns + 2_000_000_000, role="leader", name="t-0", node="n1")
    made = rows(run, {"c0", "c1"}, [placement])
    assert made == [{"node": "n1", "faults": [], "sought": [], "held": [[2_000_000, 20_000_000, "leads t-0", "leads t-0"]]}]
    assert known(made).startswith("Roles of brokers are from their own logs")


def test_roles_come_from_the_brokers_logs_where_a_clock_places_them(tmp_path):
    """Dates in UTC, history in its own time; internal topics are coordinated and not led."""
    wall = 1_795_617_112_000_000_000  # 2026-11-25T14:31:52Z, when the history began
    run_with(tmp_path, [])
    (tmp_path / "history").mkdir()
    header = {"format": "fencepost-history", "version": 1, "time": example.START, "wall": wall}
    (tmp_path / "history" / "c0-0.jsonl").write_text(json.dumps(header) + "\n", "utf-8")
    leads = "[a] [INFO] state.change.logger - [Broker id=1] Leader {} with topic id Some(x) starts at leader epoch 0"
    lines = [
        f"2026-11-25T14:31:53.000Z {leads.format('t-0')}",
        f"2026-11-25T14:31:53.000Z {leads.format('__consumer_offsets-1')}",
        "2026-11-25T14:31:55.500Z [a] [INFO] x - [TransactionCoordinator id=1] Elected as the txn coordinator for partition 4 at "
        "epoch 0",
        "2026-11-25T14:31:57.000Z [a] [INFO] x - [RaftManager id=1] Completed transition to Leader(localVoterNode=V, epoch=2)",
    ]
    (tmp_path / "logs" / "n1").mkdir(parents=True)
    (tmp_path / "logs" / "n1" / "server.log").write_text("\n".join(lines) + "\n", "utf-8")
    made = page(read(open_run(tmp_path))).timeline["brokers"]
    leads_t, coordinates = "leads t-0", "coordinates 4"
    assert [row["held"] for row in made if row["node"] == "n1"] == [
        [
            [1_000_000, 3_500_000, leads_t, leads_t],
            [3_500_000, 5_000_000, f"{leads_t}, {coordinates}", f"{leads_t}; {coordinates} of __transaction_state"],
            [
                *(5_000_000, 20_000_000, f"controller, {leads_t}, {coordinates}"),
                f"controller; {leads_t}; {coordinates} of __transaction_state",
            ],
        ]
    ]
