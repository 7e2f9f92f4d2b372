"""Abilities of a machine, from what was measured on it."""

from __future__ import annotations

import pytest

from fencepost.harness.api import Partitionable
from fencepost.harness.cli import machine
from fencepost.harness.cli.machine import Examination


@pytest.mark.parametrize(
    ("finding", "ok"),
    [
        (machine.python((3, 9, 18)), False),
        (machine.python((3, 10, 0)), True),
        (machine.unshare(None), None),
        (machine.unshare("/usr/bin/unshare"), True),
        (machine.memory(2.0), False),
        (machine.memory(4.0), None),
        (machine.memory(6.0), True),
        (machine.cores(1), None),
        (machine.cores(2), True),
        (machine.disk(0.5), False),
        (machine.disk(2.0), None),
        (machine.disk(50.0), True),
        (machine.files(256), False),
        (machine.files(1024), None),
        (machine.files(4096), True),
        (machine.chromium(None), None),
    ],
)
def test_a_finding_is_good_or_prevents_runs_or_limits_them(finding, ok):
    assert finding.ok is ok
    assert finding.text


@pytest.mark.parametrize(
    "finding", [machine.python((3, 9)), machine.memory(2), machine.disk(0.5), machine.files(256), machine.unshare(None)]
)
def test_a_finding_that_is_not_good_has_a_remedy(finding):
    assert finding.remedy


def test_working_namespaces_need_no_remedy():
    assert machine.from_missing({}, "1") == Examination(
        "namespaces", True, "user, network, mount and pid namespaces work: every fault can be had"
    )


def test_a_fault_that_only_lacks_an_option_of_the_cluster_is_none_that_this_machine_lacks(monkeypatch):
    monkeypatch.setattr(machine, "from_missing", lambda missing, _apparmor: missing)
    assert [why for why in machine.namespaces().values() if "[test.cluster]" in why] == []


def test_ubuntus_restriction_is_named_with_its_sysctl():
    finding = machine.from_missing({Partitionable: "unshare: operation not permitted"}, "1")
    assert finding.ok is None
    assert "Partitionable: unshare: operation not permitted" in finding.text
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in finding.remedy


def test_missing_namespaces_for_another_reason_do_not_name_apparmor():
    assert "apparmor" not in machine.from_missing({Partitionable: "user.max_user_namespaces is 0"}, "0").remedy


def test_a_run_is_possible_unless_something_needed_is_missing():
    assert machine.possible([Examination("a", True, ""), Examination("b", None, "")])
    assert not machine.possible([Examination("a", True, ""), Examination("b", False, "")])


def test_every_requirement_is_examined_on_this_machine(tmp_path):
    findings = machine.examine(tmp_path / "not" / "there" / "yet")
    assert [finding.name for finding in findings] == [
        "python", "java", "unshare", "namespaces", "memory", "cores", "disk", "files", "kafka", "chromium", "docker",
        "clients",
    ]  # fmt: skip


def test_a_run_is_possible_without_docker():
    assert machine.from_docker("", ["apache/kafka:4.3.0"]).ok is True
    assert machine.from_docker("", []).ok is None
    assert "sudo fencepost cluster image" in machine.from_docker("", []).remedy
    finding = machine.from_docker("no Docker daemon answers", [])
    assert (finding.ok, finding.text) == (None, "--cluster docker cannot be used: no Docker daemon answers")


def test_families_of_clients_are_named_with_what_they_lack():
    """Several families that lack the same are one sentence; nothing lacking is fine."""
    lacking = machine.clients({"java": "", "franz-go": "Go is missing", "sarama": "Go is missing"}, lambda _: [])
    assert lacking.ok is None
    assert lacking.text.endswith("of java as drivers; not franz-go, sarama: Go is missing")
    assert machine.clients({"java": ""}, lambda _: ["4.3.0"]).ok is True


def test_versions_that_are_built_are_named_beside_what_is_missing():
    lacking = machine.clients({"franz-go": "Go is missing", "java": ""}, lambda name: ["1.22.1", "1.22.2"])
    assert lacking.text.endswith("not franz-go: Go is missing; built already, and usable: franz-go@1.22.1, franz-go@1.22.2")
