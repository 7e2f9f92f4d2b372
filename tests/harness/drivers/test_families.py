"""A client's name becomes a driver: fetched once, built again when its sources change, refused with a sentence."""

from __future__ import annotations

import sys
from itertools import count
from types import SimpleNamespace

import pytest

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.errors import UnusableLibrary
from fencepost.harness.drivers import families, pipes
from fencepost.harness.plugins import registry
from fencepost.harness.system.logs import ShortLog

DRIVER = """
import json, sys
while head := sys.stdin.buffer.read(4):
    request = json.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
    ok = {"protocol": 1, "client": "pigeon", "version": "9", "runtime": "air", "capabilities": [], "transactions": 2}
    if request["call"] == "check":
        ok = {"refused": [["producer", key, "unknown"] for key in request["producer"] if key != "acks"]}
    body = json.dumps({"id": request["id"], "ok": ok}).encode()
    sys.stdout.buffer.write(len(body).to_bytes(4, "big") + body)
    sys.stdout.flush()
"""


class Pigeons:
    """A family whose library is one file."""

    default, versions = "9", "9 and 10"
    downloads, builds, lacks, lacks_built = [], [], "", ""
    source = None
    stale = ()  # downloads that cannot be used any more, by their number

    def refusal(self, version):
        return "" if version in ("9", "10") else f"there is no {version}, only 9 and 10"

    def missing(self, built=False):
        return self.lacks_built if built else self.lacks

    def sources(self):
        return [self.source]

    def download(self, version, directory, progress):
        self.downloads.append(version)
        (directory / "library.txt").write_text(f"{version} {len(self.downloads)}")

    def build(self, version, library, directory):
        self.builds.append(version)
        (directory / "driver.py").write_text(self.source.read_text())

    def command(self, version, library, built):
        if int((library / "library.txt").read_text().split()[1]) in self.stale:
            raise UnusableLibrary(f"pigeons {version} have flown: fencepost client fetch pigeons@{version}")
        return [sys.executable, str(built / "driver.py")]

    def reads(self):
        return []


@pytest.fixture
def pigeons(tmp_path, monkeypatch):
    """The family `pigeons`, installed, with an empty cache."""
    source = tmp_path / "source.py"
    source.write_text(DRIVER)
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))
    for name, value in {"source": source, "downloads": [], "builds": [], "lacks": "", "stale": ()}.items():
        monkeypatch.setattr(Pigeons, name, value)
    real_names, real_load = registry.names, registry.load
    monkeypatch.setattr(registry, "names", lambda group: ["pigeons"] if group == "driver" else real_names(group))
    monkeypatch.setattr(registry, "load", lambda group, name: Pigeons if group == "driver" else real_load(group, name))
    return Pigeons


def test_a_version_is_fetched_and_built_once(pigeons):
    heard = []
    first = families.obtain("pigeons@10", heard.append)
    assert families.obtain("pigeons@10", heard.append) == first
    assert (pigeons.downloads, pigeons.builds) == (["10"], ["10"])
    assert heard == ["fetching the client pigeons@10", "building the driver of pigeons@10"]
    assert [client.directory.name for client in families.fetched()] == ["10"]
    assert families.obtain("pigeons").kind == "pigeons@9"


def test_a_driver_is_built_again_when_its_sources_change(pigeons):
    first = families.obtain("pigeons")
    pigeons.source.write_text(DRIVER + "# changed\n")
    second = families.obtain("pigeons")
    assert (pigeons.downloads, pigeons.builds) == (["9"], ["9", "9"])
    assert (first.checksum == second.checksum, first.command == second.command) == (True, False)


def test_a_damaged_library_is_named_and_fetched_anew_on_demand(pigeons, tmp_path):
    families.obtain("pigeons")
    (tmp_path / "cache" / "clients" / "pigeons" / "9" / "library.txt").write_text("something else")
    with pytest.raises(ClusterError, match=r"in the cache is damaged: .*library\.txt.*fencepost client fetch pigeons@9"):
        families.obtain("pigeons")
    assert families.obtain("pigeons", repair=True).version == "9"
    assert pigeons.downloads == ["9", "9"]


def test_a_driver_says_what_it_can_do_and_what_it_refuses(pigeons):
    driver = families.obtain("pigeons")
    assert (families.hello(driver).client, families.hello(driver).transactions) == ("pigeon", 2)
    assert families.refusals(driver, {"acks": "all", "wings": 2}, {}) == [("producer", "wings", "unknown")]


def test_what_cannot_be_had_is_one_sentence(pigeons, tmp_path, monkeypatch):
    assert families.mistakes("pigeons@11") == ["pigeons@11: there is no 11, only 9 and 10"]
    assert families.mistakes("./nothing") == ['"./nothing" is no program that can be executed here; there is no such file']
    with pytest.raises(CampaignError, match='unknown client "pidgeons"; did you mean "pigeons"'):
        families.obtain("pidgeons@9")
    (tmp_path / "pidgeons").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CampaignError, match=r"; a program of yours is written \./pidgeons$"):
        families.obtain("pidgeons")
    pigeons.lacks = "a loft is missing (build one)"
    with pytest.raises(CampaignError, match=r"pigeons@9: a loft is missing \(build one\)"):
        families.obtain("pigeons@9")


def test_what_is_built_is_driven_where_nothing_can_be_built(pigeons, monkeypatch):
    families.obtain("pigeons@10")
    monkeypatch.setattr(pigeons, "lacks", "a loft is missing")
    assert families.obtain("pigeons@10").version == "10"
    assert (families.missing(), families.drivable("pigeons")) == ({"pigeons": "a loft is missing"}, ["10"])
    assert families.mistakes("pigeons@9") == ["pigeons@9: a loft is missing"]  # nothing of it is there
    pigeons.source.write_text(DRIVER + "# changed\n")
    assert families.mistakes("pigeons@10") == ["pigeons@10: a loft is missing"]  # it would have to be built again


def test_what_is_built_is_of_no_use_without_what_runs_it(pigeons, monkeypatch):
    families.obtain("pigeons@10")
    monkeypatch.setattr(pigeons, "lacks", "grain and a loft are missing")
    monkeypatch.setattr(pigeons, "lacks_built", "grain is missing")
    assert families.mistakes("pigeons@10") == ["pigeons@10: grain is missing"]
    assert families.drivable("pigeons") == []


def test_a_library_that_cannot_be_used_any_more_is_fetched_anew_on_demand(pigeons, monkeypatch):
    families.obtain("pigeons@10")
    monkeypatch.setattr(pigeons, "stale", (1,))
    with pytest.raises(UnusableLibrary, match="fencepost client fetch pigeons@10"):
        families.obtain("pigeons@10")
    assert pigeons.downloads == ["10"]
    assert families.obtain("pigeons@10", repair=True).version == "10"
    assert families.obtain("pigeons@10").version == "10"
    assert pigeons.downloads == ["10", "10"]


def test_a_library_that_is_of_no_use_when_fetched_anew_is_fetched_once(pigeons, monkeypatch):
    monkeypatch.setattr(pigeons, "stale", (1, 2, 3))
    with pytest.raises(UnusableLibrary):
        families.obtain("pigeons@10", repair=True)
    assert pigeons.downloads == ["10", "10"]


def test_a_program_that_is_no_driver_is_named(tmp_path):
    program = tmp_path / "driver"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    with pytest.raises(ClusterError, match=r"does not work here: hello: .*is there anything else on standard output\?"):
        families.hello(families.obtain(str(program)))


BAD_CHECKS = {
    "a number": "7",
    "a text": "'acks'",
    "an object": "{'acks': 'no'}",
    "numbers": "[['producer', 'acks', 7]]",
    "two of three": "[['producer', 'acks']]",
    "no lists": "['acks']",
    "true": "True",
    "too many": "[['producer', 'acks', 'no']] * 2000",
}


@pytest.mark.parametrize("refused", BAD_CHECKS.values(), ids=BAD_CHECKS)
def test_an_answer_to_check_of_another_shape_is_a_sentence_about_the_driver(pigeons, refused):
    pigeons.source.write_text(
        DRIVER.replace('[["producer", key, "unknown"] for key in request["producer"] if key != "acks"]', refused)
    )
    with pytest.raises(ClusterError, match=r"the driver of pigeons@9 does not work here: .*an answer to `check` that cannot be"):
        families.refusals(families.obtain("pigeons"), {"acks": "all"}, {})


def test_a_silent_driver_is_named_with_what_it_wrote_and_nothing_reaches_the_terminal(pigeons, monkeypatch, capfd):
    logs = []

    class Log(ShortLog):
        def __enter__(self):
            logs.append(self)
            return super().__enter__()

    clock = count()
    monkeypatch.setattr(families, "ShortLog", Log)
    monkeypatch.setattr(pipes, "time", SimpleNamespace(monotonic=lambda: next(clock) if logs[0].last_words() else -1))
    monkeypatch.setattr("fencepost.harness.drivers.process.HELLO_S", 1.0)
    monkeypatch.setattr("fencepost.harness.system.logs.SHORT", 1 << 16)
    pigeons.source.write_text("import os\nwhile True: os.write(2, b'cannot find the loft\\n')\n")
    with pytest.raises(
        ClusterError, match=r"does not work here: .*no answer to `hello` within 1 s.*it wrote: .*cannot find the loft"
    ):
        families.hello(families.obtain("pigeons"))
    assert capfd.readouterr() == ("", "")
