"""`fencepost clean` beside whole runs on hosts that are reached by ssh; what is on the hosts ends by its lease."""

from __future__ import annotations

import json

import pytest
from support import clean_scenes
from support.clean_scenes import APART, Place
from support.fencepost_command import until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.nightly]
WHERE = pytest.mark.parametrize("prefix", [(), APART], ids=["beside", "apart"])


@pytest.fixture
def options(ssh_hosts):
    given = {**ssh_hosts.options, "hosts": ssh_hosts.options["hosts"][:1], "heap_mb": 256}
    return (
        "--cluster",
        "ssh",
        *(word for key, value in given.items() for word in ("--cluster-set", f"{key}={json.dumps(value)}")),
    )


@WHERE
def test_a_live_run_is_named_and_left_alone(prefix, options, ssh_hosts, tmp_path):
    _, run = clean_scenes.a_live_run_is_left_alone(Place(tmp_path), options, prefix)
    assert ssh_hosts.remains(run.name) == []


@WHERE
def test_a_killed_run_is_removed(prefix, options, ssh_hosts, tmp_path):
    run = clean_scenes.a_killed_run_is_removed(Place(tmp_path), options, prefix)
    assert until(lambda: ssh_hosts.remains(run.name) == [], 3 * ssh_hosts.LEASE_S)
