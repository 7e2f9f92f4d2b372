"""What passes is in the kernel's hands before it is made lines of: a proxy that is killed loses none of it."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import struct
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from support import frames
from support.frames import add_partitions, answer, end_txn, init_producer_id, produce, producer_is, request, text

from fencepost.harness.api import ClusterError
from fencepost.harness.proxy import journal, record
from fencepost.harness.proxy.continuity import NO_END
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

PIPE = 1 << 20  # bytes of a pipe
MANY = 45_000  # partitions: a line of 2.5 MB, more than half a segment
TIMES = ("sum", "client", "arrived_ns", "answered_ns", "returned_ns", "time_ns")  # what differs between two equal proxies


def exchange(client, broker, number, content, reply):
    client.send(content)
    assert broker.receive() == content[4:]
    broker.send(reply)
    assert client.receive() == reply[4:]


def small(client, broker):
    """Messages of several kinds: known ones, a body that cannot be read, and a request without an answer."""
    exchange(client, broker, 1, init_producer_id(1, "x"), producer_is(1, (7, 3)))
    exchange(client, broker, 2, produce(2, (7, 3)), answer(2))
    exchange(client, broker, 3, add_partitions(3), answer(3))
    exchange(client, broker, 4, end_txn(4), answer(4))
    exchange(client, broker, 5, request(frames.END_TXN, 0, 5, b"\0"), answer(5))
    client.send(end_txn(6))
    broker.receive()


def long(client, broker):
    """A line that no segment has room for, between others."""
    exchange(client, broker, 1, end_txn(1), answer(1))
    places = struct.pack(f">{MANY}i", *range(MANY))
    topics = struct.pack(">i", 1) + text("t") + struct.pack(">i", MANY) + places
    body = text("x") + struct.pack(">qh", 7, 3) + topics
    client.send_meanwhile(request(frames.ADD_PARTITIONS, 0, 2, body))
    broker.receive()
    broker.send(answer(2, b"\0" * 8))
    assert client.receive()
    exchange(client, broker, 3, end_txn(3), answer(3))


def laps(client, broker, count=4000):
    """Messages, each of which is recorded as it is: by default more than two segments of them."""
    for number in range(count):
        exchange(client, broker, number, end_txn(number, "x" * 2500), answer(number))


def recorded(folder, classpath, exchanges, kill):
    """The lines of a proxy, and the files that it leaves."""
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n1")], record=folder)
        with ProxyProcess(settings, classpath) as proxy:
            exchanges(frames.connected(proxy.address), upstream.accepted())
            if kill:
                os.kill(proxy.pid, signal.SIGKILL)
                proxy.wait()
    return list(record.lines_of(folder / "proxy.jsonl")), sorted(path.name for path in folder.iterdir())


def told(lines):
    """Lines of messages without times."""
    return [
        {key: value for key, value in vars_of(line).items() if key not in TIMES}
        for line in lines
        if line.at in ("request", "answer", "unknown")
    ]


def vars_of(line):
    return {key: getattr(line, key) for key in line.__struct_fields__}


@pytest.mark.cluster
@pytest.mark.parametrize("exchanges", [small, long, laps])
def test_a_killed_proxy_has_the_lines_of_one_that_has_ended(tmp_path, kafka_classpath, exchanges):
    lines = {}
    for kill in (False, True):
        (folder := tmp_path / str(kill)).mkdir()
        lines[kill], files = recorded(folder, kafka_classpath, exchanges, kill)
        assert files == ["proxy.journal-0", "proxy.journal-1", "proxy.jsonl"][0 if kill else 2 :]
    assert told(lines[True]) == told(lines[False])
    assert [line.line for line in lines[True]] == list(range(len(lines[True])))
    assert (lines[False][-1].at, lines[True][-1].at == "end") == ("end", False)
    times = [line.arrived_ns or line.answered_ns for line in lines[True] if line.at in ("request", "answer")]
    assert times == sorted(times)


@pytest.mark.cluster
def test_a_rule_knows_the_state_of_an_id_of_which_no_line_is_made_yet(scene):
    client, broker = scene.connection()
    exchange(client, broker, 1, init_producer_id(1, "unmade"), producer_is(1, (9000, 0)))
    exchange(client, broker, 2, end_txn(2, "unmade", producer=(9000, 0)), answer(2))
    rule = scene.control.add({"act": "record", "api": "EndTxn", "state": "committed"})
    exchange(client, broker, 3, end_txn(3, "unmade", producer=(9000, 0)), answer(3))
    assert [catch["id_state"] for catch in scene.control.catches(rule)] == ["committed"]


@pytest.mark.cluster
def test_many_who_wait_for_lines_at_once_do_not_keep_each_other_from_them(scene):
    """Rules that ask for the state of an id let a request wait for the lines of those before it, of many clients at once."""
    scene.control.add({"act": "record", "api": "EndTxn", "state": "committed"})
    connections = [scene.connection() for _ in range(6)]

    def exchanges(place):
        client, broker = connections[place]
        for number in range(150):
            exchange(client, broker, number, add_partitions(number), answer(number))  # recorded as it is
            exchange(client, broker, number, end_txn(number, f"many-{place}"), answer(number))

    with ThreadPoolExecutor(len(connections)) as pool:
        done = [pool.submit(exchanges, place) for place in range(len(connections))]
        for one in done:
            one.result(timeout=frames.PATIENCE_S)
    made = Counter((line["at"], line["n"]) for line in scene.lines() if line["at"] in ("request", "answer"))
    assert (len(made), set(made.values())) == (len(connections) * 150 * 4, {1})  # each line once


@pytest.mark.cluster
def test_a_mark_counts_no_lines_of_events_that_are_not_all_lines(tmp_path, kafka_classpath):
    """Lines go into a pipe, which is full in the middle of many. No message waits for it, and a file of the journal fills."""
    lines = tmp_path / "proxy.jsonl"
    os.mkfifo(lines)
    pipe = os.open(lines, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n1")], record=tmp_path)
        with ProxyProcess(settings, kafka_classpath) as proxy:
            client, broker = frames.connected(proxy.address), upstream.accepted()
            laps(client, broker, 1000)
            wait_until_full(lines)
            written = drained(pipe, PIPE)
            laps(client, broker, 500)
            wait_until_full(lines)
            laps(client, broker, 200)
            os.kill(proxy.pid, signal.SIGKILL)
            proxy.wait()
    written += drained(pipe)
    os.close(pipe)
    rest = journal.unfinished(lines)
    assert rest.size <= written
    assert journal.HEAD.unpack_from(rest.entries)[3] == rest.lines + 1  # each event is one line here


def wait_until_full(pipe):
    """Until whoever writes into it can write no more."""
    writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    end = time.monotonic() + frames.PATIENCE_S
    while select.select([], [writer], [], 0)[1]:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.close(writer)


def drained(pipe, least=0):
    """How many bytes were read: at least so many, else all that there are."""
    count = 0
    while select.select([pipe], [], [], frames.PATIENCE_S if count < least else 0)[0] and (part := os.read(pipe, 1 << 16)):
        count += len(part)
        if least and count >= least:
            break
    return count


@pytest.fixture(scope="module")
def killed(tmp_path_factory, kafka_classpath):
    """The files of a killed proxy, and its lines: some were written, and the pipe that they go to took no more."""
    folder = tmp_path_factory.mktemp("killed")
    path = folder / "proxy.jsonl"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n1")], record=folder)
        with ProxyProcess(settings, kafka_classpath) as proxy:
            client, broker = frames.connected(proxy.address), upstream.accepted()
            exchange(client, broker, 7, end_txn(7), answer(7))
            proxy.control.status()  # which waits for lines
            written = os.read(pipe, PIPE)
            fill(path)
            small(client, broker)
            os.kill(proxy.pid, signal.SIGKILL)
            proxy.wait()
    os.close(pipe)
    path.unlink()
    path.write_bytes(written)
    assert written.count(b"\n") == 3
    return folder, list(record.lines_of(path))


def fill(pipe):
    """Write into it until it takes nothing more."""
    writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    for size in (1 << 16, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(size))
    os.close(writer)


@pytest.fixture
def files(tmp_path, killed):
    shutil.copytree(killed[0], tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.cluster
def test_what_was_written_behind_the_last_mark_is_made_again(files, killed):
    """It was killed between writing lines and saying so."""
    rest = journal.unfinished(files / "proxy.jsonl")
    with open(files / "proxy.jsonl", "r+b") as file:
        file.seek(rest.size)
        file.write(b'{"line":0,"half a line')
    assert list(record.lines_of(files / "proxy.jsonl")) == killed[1]


@pytest.mark.cluster
def test_a_damaged_event_is_the_end(files, killed):
    segment = files / "proxy.journal-0"
    content = bytearray(segment.read_bytes())
    last = [number for number, *_ in journal._entries(segment)][-1]
    at = content.rfind(struct.pack(">iQ", 1, last))
    content[at + 20] ^= 0xFF
    segment.write_bytes(content)
    some = list(record.lines_of(files / "proxy.jsonl"))
    assert some == killed[1][: len(some)]
    assert len(some) == len(killed[1]) - 1
    assert record.recorded(files).nodes["n1"].why == NO_END


@pytest.mark.cluster
def test_without_its_segments_a_record_ends_earlier(files, killed):
    for path in files.glob("*.journal-*"):
        path.unlink()
    some = list(record.lines_of(files / "proxy.jsonl"))
    assert some == killed[1][: len(some)]
    assert len(some) < len(killed[1])


@pytest.mark.cluster
@pytest.mark.parametrize("broken", ["no Java", "no event"])
def test_what_cannot_be_made_lines_of_is_said(files, monkeypatch, broken):
    if broken == "no Java":

        def missing():
            raise ClusterError("Java 17 or newer is missing")

        monkeypatch.setattr(journal, "java", missing)
    else:
        (files / "proxy.journal-0").write_bytes(entry(1, 99, b"nothing that is known"))
        (files / "proxy.journal-1").write_bytes(b"")
    sentence = r"proxy\.jsonl: its proxy was killed, and what it recorded last cannot be made lines of: .*(Java 17|no kind 99)"
    with pytest.raises(ValueError, match=sentence):
        record.read(files)


# --------------------------------------------------------------------------------------------------
# Segments alone
# --------------------------------------------------------------------------------------------------
def entry(number, kind, content, lap=1):
    behind = struct.pack(">iQB", lap, number, kind) + content
    return struct.pack(">II", len(behind), zlib.crc32(behind)) + behind


def mark(number, lines, size, lap=1):
    return entry(number, journal.MARK, struct.pack(">QQ", lines, size), lap)


def unfinished(folder, *segments):
    for number, content in enumerate(segments):
        (folder / f"p.journal-{number}").write_bytes(b"".join(content))
    return journal.unfinished(folder / "p.jsonl")


def event(number, lap=1):
    return entry(number, 1, b"{}", lap)


@pytest.mark.parametrize(
    ("segments", "wanted"),
    [
        pytest.param((), None, id="there are none"),
        pytest.param(([b"\0" * 1000], []), None, id="zeros"),
        pytest.param(([event(1), event(2)],), (0, 0, 2), id="no line yet"),
        pytest.param(([event(1), event(2), mark(2, 2, 90)],), None, id="all are lines"),
        pytest.param(([event(1), mark(1, 5, 90), event(2)],), (5, 90, 1), id="some are"),
        pytest.param(([event(1), event(2)], [mark(1, 1, 9, 2), event(3, 2)]), (1, 9, 2), id="in both"),
        pytest.param(([mark(8, 9, 99, 3), event(9, 3), event(2), event(3)], []), (9, 99, 1), id="older ones behind"),
        pytest.param(([event(1), event(3)],), (0, 0, 1), id="a hole"),
        pytest.param(([event(1), event(2)[:-1]],), (0, 0, 1), id="half an entry"),
        pytest.param(([event(1), struct.pack(">II", 3, 0) + b"abc"],), (0, 0, 1), id="too short for an entry"),
        pytest.param(([event(1), entry(1, journal.MARK, b"")],), (0, 0, 1), id="a mark without content"),
    ],
)
def test_events_that_are_no_lines(tmp_path, segments, wanted):
    found = unfinished(tmp_path, *segments)
    assert (found and (found.lines, found.size, found.entries.count(b"{}"))) == wanted


def test_a_file_of_any_size_is_no_segment(tmp_path):
    with open(tmp_path / "p.journal-0", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match=r"p\.journal-0: it has more than 67,108,864 bytes"):
        journal.unfinished(tmp_path / "p.jsonl")


def test_a_pipe_is_no_segment(tmp_path):
    os.mkfifo(tmp_path / "p.journal-1")
    with pytest.raises(OSError, match="it is a pipe"):
        journal.unfinished(tmp_path / "p.jsonl")
