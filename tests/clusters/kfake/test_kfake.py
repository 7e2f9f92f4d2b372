"""kfake: its options without Go, and the workloads on it (nightly: a Go program is built, and five runs are made)."""

import json
import shutil
import subprocess
import sys

import pytest

from fencepost.clusters.kfake import program
from fencepost.clusters.kfake.provider import Kfake
from fencepost.harness.api import CampaignError, Corruptible, Killable, Partitionable, Pausable
from fencepost.harness.plugins.validation import breaches

# PRODUCER_FENCED to AddOffsetsToTxn 0, which librdkafka sends: Kafka has INVALID_PRODUCER_EPOCH there (docs/clusters.md).
FENCED_CODE = """[[known]]
fingerprint = "a5e98c91220d"
reason = "kfake answers AddOffsetsToTxn 0 with PRODUCER_FENCED, a code that this version does not have"
expires = 2099-12-31
"""


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A cache that holds a program of this name."""
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    program._store().fetch(program._name(), lambda place: (place / program.PROGRAM).touch())


def test_a_machine_without_go_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CampaignError, match="built by Go, which is missing: install it"):
        Kfake()


def test_what_is_built_needs_no_go(built, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert Kfake().brokers == 3
    assert program.ensure().name == "kfake"


def test_only_clients_can_be_hurt(built):
    missing = Kfake().missing()
    assert {Partitionable, Corruptible} <= set(missing)
    assert not {Killable, Pausable} & set(missing)
    assert "one process" in Kfake.only_clients
    assert Kfake.default_nemesis == ()


def test_the_version_is_the_pinned_one(built):
    assert program.version() == "kfake 01f206a7e32c"
    assert Kfake(settings={"a": True}).describe()["broker_settings"] == {"a": "true"}
    assert breaches("cluster", Kfake) == []


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.parametrize("workload", ["transactions", "idempotent", "pipeline", "fencing"])
def test_a_workload_on_it_is_valid(tmp_path, workload):
    if program.missing():
        pytest.fail(program.missing())
    (tmp_path / "known.toml").write_text(FENCED_CODE)
    argv = [sys.executable, "-m", "fencepost", "run", "--cluster", "kfake", "--workload", workload, "--time", "5"]
    argv += ["--known", str(tmp_path / "known.toml"), "--results", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (verdict,) = tmp_path.glob("*/*/verdict.json")
    findings = [finding["sentence"] for finding in json.loads(verdict.read_text())["findings"] if finding["forbidden"]]
    assert [text for text in findings if not text.startswith("send_offsets of") or "raised _FENCED (abortable)" not in text] == []
