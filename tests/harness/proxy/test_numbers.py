"""The lines of a proxy's record are numbered, and the last one says how many there are, however the proxy ends."""

from __future__ import annotations

import os
import signal

import pytest
from support import frames
from support.frames import answer, end_txn

from fencepost.harness.proxy import record
from fencepost.harness.proxy.process import SPAN, Broker, ProxyProcess, Settings

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
ENDS = {
    "its input ends": lambda proxy: None,
    "it is stopped": lambda proxy: proxy.control.stop(),
    "a signal": lambda proxy: os.kill(proxy.pid, signal.SIGTERM),
    "it is killed": lambda proxy: os.kill(proxy.pid, signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_first_and_the_last_line(tmp_path, kafka_classpath, end):
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n1")], record=tmp_path, node="n1-2", first=SPAN)
        with ProxyProcess(settings, kafka_classpath) as proxy:
            client = frames.connected(proxy.address)
            broker = upstream.accepted()
            for number in range(3):
                client.send(end_txn(number))
                broker.receive()
                broker.send(answer(number))
                client.receive()
            ENDS[end](proxy)
    lines = list(record.lines_of(tmp_path / "n1-2.jsonl"))
    assert [line.line for line in lines] == list(range(len(lines)))
    begin, told = lines[0], [line for line in lines if line.at in ("request", "answer")]
    assert (begin.at, begin.nodes, begin.first) == ("begin", ["n1"], SPAN)
    assert [line.at for line in told] == ["request", "answer"] * 3
    whole = lines[-1].at == "end" and lines[-1].lines == len(lines)
    assert whole == (end != "it is killed")
    assert record.recorded(tmp_path).nodes["n1"].until_ns == 0, "that of the proxy before it is not there"


def test_lines_in_memory_are_numbered_too(kafka_classpath):
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n1")])
        with ProxyProcess(settings, kafka_classpath) as proxy:
            client = frames.connected(proxy.address)
            client.send(end_txn(1))
            broker = upstream.accepted()
            broker.receive()
            assert [(line["line"], line["at"]) for line in proxy.control.record()] == [(0, "begin"), (1, "request")]
