"""Process ids of nodes, and starting again what is dead."""

from fencepost.nemesis.support.processes import alive, end_processes, known_pids, pids, restart, revive
from fencepost.nemesis.testing import FakeCluster


def test_only_the_dead_are_started_and_all_must_answer():
    cluster = FakeCluster()
    before = cluster.pid("n1")
    cluster.kill("n2")
    restarted = restart(cluster, ["n1", "n2"], 0.0)
    assert (restarted.started, restarted.left, restarted.problems) == (["n2"], [], [])
    assert restarted.healing == {
        "started": ["n2"],
        "after": {"n1": before, "n2": cluster.pid("n2")},
        "answers": {"n1": True, "n2": True},
    }


def test_a_node_that_does_not_answer_is_named_with_what_is_known_of_its_process():
    cluster = FakeCluster()
    cluster.mute_for = {"n1": 10}
    cluster.kill("n1")
    [problem] = restart(cluster, ["n1"], 0.0).problems
    assert problem == f"n1 did not answer within 0 s of healing; its process {cluster.pid('n1')} lives"


def test_ended_means_another_process_or_none():
    cluster = FakeCluster()
    cluster.kill("n3")
    struck = end_processes(cluster, ["n1", "n3"], cluster.kill, 0.0)
    assert (struck.hit, struck.unhealthy, struck.during) == (["n1"], ["n3"], {"n1": None, "n3": None})


def test_whoever_is_revived_runs():
    cluster = FakeCluster()
    cluster.kill("n1")
    revive(cluster, ["n1", "n2"])
    assert alive(["n1", "n2", "n3"], pids(cluster, ["n1", "n2"])) == ["n1", "n2"]


def test_where_process_ids_cannot_be_had_none_is_known():
    assert known_pids(object(), ["n1"]) == {}
