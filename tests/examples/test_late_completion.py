"""The reproducer of the late completion: its wait for the end of the second broker's replicas goes on without an answer."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

FOLDER = Path(__file__).parents[2] / "examples" / "reproducers"


@pytest.fixture
def reproducer(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("late_completion_reproducer", FOLDER / "late_completion.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


class Admin:
    """It answers a number of replicas in sync; None: the broker that was asked is dead."""

    def __init__(self, *answers):
        self.answers, self.timeouts = list(answers), []

    def list_topics(self, topic, timeout=-1):
        self.timeouts.append(timeout)
        count = self.answers.pop(0)
        if count is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: SimpleNamespace(isrs=[1, 2][:count])})})


@pytest.mark.parametrize(("answers", "most"), [((1, 1), 1), ((1, 2), 2), ((2, 1), 2), ((None,), 0), ((1, None), 0)])
def test_a_dead_broker_that_is_asked_is_no_answer_and_no_wait_without_end(reproducer, answers, most):
    admin = Admin(*answers)
    assert reproducer.most_in_sync(admin, ("t", reproducer.STATE)) == most
    assert all(timeout > 0 for timeout in admin.timeouts)
