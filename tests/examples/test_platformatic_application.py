"""The launcher of the program with @platformatic/kafka: the group has offsets before the first instance joins, and keeps them."""

import importlib.util
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

PATH = Path(__file__).parents[2] / "examples" / "applications" / "platformatic.py"


@pytest.fixture(scope="module")
def launcher():
    spec = importlib.util.spec_from_file_location("platformatic_launcher", PATH)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeAdmin:
    """A cluster with one group; the first requests to change its offsets are refused."""

    def __init__(self, offsets, refusals=0):
        self.offsets, self.refusals, self.changes = dict(offsets), refusals, 0

    def list_topics(self, name, timeout):
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=dict.fromkeys(self.offsets))})

    def list_consumer_group_offsets(self, request):
        places = [TopicPartition("in", number, offset) for number, offset in self.offsets.items()]
        return {"group": done(SimpleNamespace(topic_partitions=places))}

    def alter_consumer_group_offsets(self, request):
        self.changes += 1
        if self.changes <= self.refusals:
            return {"group": done(error=KafkaException(KafkaError(KafkaError.NON_EMPTY_GROUP)))}
        self.offsets = {place.partition: place.offset for place in request[0].topic_partitions}
        return {"group": done(None)}


def done(result=None, error=None):
    future = Future()
    future.set_exception(error) if error else future.set_result(result)
    return future


@pytest.mark.parametrize(
    ("before", "refusals", "after", "changes"),
    [
        ({0: -1001, 1: -1001}, 0, {0: 0, 1: 0}, 1),
        ({0: 5, 1: 0}, 0, {0: 5, 1: 0}, 0),  # others have begun already
        ({0: -1001, 1: -1001}, 2, {0: 0, 1: 0}, 3),
    ],
)
def test_a_group_gets_offsets_once(launcher, monkeypatch, before, refusals, after, changes):
    admin = FakeAdmin(before, refusals)
    monkeypatch.setattr(launcher, "AdminClient", lambda settings: admin)
    monkeypatch.setattr(launcher.time, "sleep", lambda seconds: None)
    for name, value in (("BOOTSTRAP", "nowhere:1"), ("INPUT", "in"), ("GROUP", "group")):
        monkeypatch.setenv(f"FENCEPOST_{name}", value)
    launcher.begin()
    assert (admin.offsets, admin.changes) == (after, changes)


def test_a_library_that_is_not_there_is_named_with_the_command_that_fetches_it(launcher, monkeypatch, tmp_path):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    monkeypatch.setattr(launcher.families, "obtain", lambda kind: pytest.fail("fetched by an instance"))
    with pytest.raises(SystemExit, match=r"fencepost example platformatic fetch 1\.27\.0"):
        launcher.run("1.27.0")
