"""confluent-kafka's consumer as a client: which errors a poll raises."""

from types import SimpleNamespace

import confluent_kafka as ck
import pytest

from fencepost.harness.api import CallError, ClientSettings
from fencepost.workloads.clients.librdkafka import Librdkafka


def polled(code):
    """A client whose consumer returns one message with an error."""
    client = Librdkafka(ClientSettings(bootstrap="nowhere:1", name="c", consumer={}))
    message = SimpleNamespace(error=lambda: ck.KafkaError(code, "told"))
    client._consumer = SimpleNamespace(poll=lambda timeout: message, consume=lambda count, timeout: [])
    assert client.poll(0.0, 10) == []
    return client


def test_a_fatal_error_of_a_consumer_is_raised_by_each_poll_after_it():
    """confluent-kafka gives it as a message whose error is not marked fatal; nothing is read any more."""
    client = polled(ck.KafkaError._FATAL)
    for _ in range(2):
        with pytest.raises(CallError) as raised:
            client.poll(0.0, 10)
        assert (raised.value.name, raised.value.fatal) == ("_FATAL", True)


def test_librdkafka_goes_on_after_other_errors_of_a_consumer():
    client = polled(ck.KafkaError._TRANSPORT)
    assert client.poll(0.0, 10) == []
