"""A pipeline on a real broker: its members are killed, and every input record is processed once."""

import pytest
from support.fencepost_command import JUDGED_HERE, finish, only_run, start, verdict

pytestmark = pytest.mark.cluster
CHECKS = ("reprocessed", "unprocessed", "torn-offset", "offset-regression", "unproven-ack", "producer-id-reuse")


def test_members_are_killed_and_every_input_is_processed_once(tmp_path):
    small = [
        "--set",
        "members=2",
        "--set",
        "producers_per_member=2",
        "--set",
        "writers=1",
        "--set",
        "readers=0",
        "--cluster-set",
        "brokers=1",
        "--cluster-set",
        "proxy=true",
        "--rate",
        "60",
    ]
    killed = ["--nemesis", "kill,target=client,every_s=[3,4],lasts_s=[0.1,0.2]", "--seed", "5"]
    code, out, err = finish(
        start(tmp_path, "run", "--workload", "pipeline", "--time", "12", *small, *killed, program=JUDGED_HERE)
    )
    document = verdict(only_run(tmp_path))
    assert (code, document["verdict"]) == (0, "valid"), out + err
    compared = {row["name"]: row["compared"] for row in document["properties"]}
    assert {name: compared[name] for name in CHECKS if not compared[name]} == {}
    assert [row["name"] for row in document["properties"] if row["verdict"] == "violated"] == []
