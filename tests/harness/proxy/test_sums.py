"""Each line of a proxy's record has a checksum: a damaged one is refused, and is no other record."""

from __future__ import annotations

import re

import pytest
from support import frames
from support.frames import answer, end_txn

from fencepost.harness.interop.detect import detect
from fencepost.harness.proxy import record
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do


@pytest.fixture(scope="module")
def lines(tmp_path_factory, kafka_classpath):
    """The record of one EndTxn."""
    folder = tmp_path_factory.mktemp("record")
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n1")], record=folder)
        with ProxyProcess(settings, kafka_classpath) as proxy:
            client = frames.connected(proxy.address)
            client.send(end_txn(1))
            broker = upstream.accepted()
            broker.receive()
            broker.send(answer(1))
            client.receive()
    return next(folder.glob("*.jsonl")).read_bytes()


@pytest.fixture
def file(tmp_path, lines):
    (tmp_path / "n1.jsonl").write_bytes(lines)
    return tmp_path / "n1.jsonl"


def test_no_damaged_byte_makes_another_record(file, lines):
    whole = record.read(file.parent)
    assert (whole.num_rows, detect(file.parent).name) == (1, "wire-record")
    refused = sum(_is_refused(file, lines, at, whole) for at in range(0, len(lines), 3))
    assert refused >= len(lines) // 3 - 20  # all but what numbers a line, and what ends the last one


def _is_refused(file, content, at, whole):
    """Damage a byte: whether the record is refused. Else it has the same requests."""
    file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    try:
        table = record.read(file.parent)
    except ValueError:
        return True
    assert table.equals(whole)
    return False


def test_a_line_that_was_changed_is_named(file):
    text = file.read_text()
    file.write_text(re.sub(r'"error":"NONE"', '"error":"NOBODY"', text))
    number = 1 + next(i for i, line in enumerate(text.splitlines()) if '"error":"NONE"' in line)
    with pytest.raises(ValueError, match=rf"{file.name}, line {number}: it is not as it was written: its checksum is another"):
        record.read(file.parent)


def test_lines_without_checksums_are_read(file):
    """Those of older proxies."""
    whole = record.read(file.parent)
    file.write_text(re.sub(r'"sum":\d+,', "", file.read_text()))
    assert record.read(file.parent).equals(whole)
