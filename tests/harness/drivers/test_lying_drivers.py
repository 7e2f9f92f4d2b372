"""Drivers that lie, break the protocol, or die: none is believed, each is named, and none stops the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from support.processes import has_ended

from fencepost.harness.api import CallError, ClientSettings, Delivered, Outgoing
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.pipes import COUNTED_S, Patience, SilenceError
from fencepost.harness.drivers.process import BROKEN, GONE, DriverProcess, kill_all

# A driver that does what is asked. A test replaces what it does at some calls, in `tricks`: call -> function(request).
DRIVER = """
import json, os, signal, sys, time
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
def raw(data):
    stdout.write(data); stdout.flush()
def write(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    raw(len(body).to_bytes(4, "big") + body)
def ok(request, **results):
    write({"id": request["id"], "ok": results})
def delivered(record, **fate):
    write({"event": "delivered", "record": record, **(fate or {"partition": 0, "offset": 7})})
def hello(request):
    ok(request, protocol=1, client="liar", version="1", runtime="Python", capabilities=["transactions"], transactions=1)
tricks = {"hello": hello}
TRICKS
while header := stdin.read(4):
    request = json.loads(stdin.read(int.from_bytes(header, "big")))
    tricks.get(request["call"], ok)(request)
"""
SETTINGS = ClientSettings(name="c", bootstrap="b:1", producer={}, consumer={})


@pytest.fixture
def liar(tmp_path):
    """Function that opens a client of a driver with these tricks."""
    started = []

    def make(tricks="", open=True):
        path = tmp_path / "driver.py"
        path.write_text(DRIVER.replace("TRICKS", textwrap.dedent(tricks)))
        process = DriverProcess([sys.executable, "-I", "-S", str(path)])
        started.append(process)
        client = DriverClient(process, SETTINGS)
        if open:
            client.open(1)
        return client

    yield make
    for process in started:
        process.end()


def refused(call, *arguments):
    with pytest.raises(CallError) as caught:
        call(*arguments)
    return caught.value


def sent(client, count=1):
    fates = []
    for _ in range(count):
        client.send(Outgoing(topic="t", partition=0, value=b"v"), fates.append)
    return fates


BREAKS = {
    "another request's answer": ("write({'id': request['id'] + 1, 'ok': {}})", "request 5 instead of 4"),
    "an answer without a number": ("write({'ok': {}})", "request None"),
    "words on standard output": ("print('connecting to b:1 ...', flush=True)", "standard output"),
    "an endless frame": ("raw(b'\\xff\\xff\\xff\\xff')", "no frame begins"),
    "a frame above the limit": ("raw((64 * 2**20 + 1).to_bytes(4, 'big'))", "no frame begins"),
    "no JSON": ("write(b'{')", "no JSON object"),
    "no object": ("write(b'[1]')", "no JSON object"),
    "bytes that are no UTF-8": ('write(b\'{"id": "\\xff"}\')', "no JSON object"),
    "neither results nor an error": ("write({'id': request['id']})", "neither `ok` nor `error`"),
    "results that are a list": ("write({'id': request['id'], 'ok': [1]})", "neither `ok` nor `error`"),
    "an error without a name": ("write({'id': request['id'], 'error': {'text': 'x'}})", "an error without name"),
    "an error that is a text": ("write({'id': request['id'], 'error': 'broken'})", "an error without name"),
    "the fate of a record that was never sent": ("delivered(99)", "not under way"),
    "a fate without a record": ("write({'event': 'delivered'})", "cannot be understood"),
    "a fate with an error without a name": ("delivered(1, error={})", "an error without name"),
    "a fate with an offset that is no number": ("delivered(1, partition=0, offset='far')", "cannot be understood"),
    "a fate with half an offset": ("delivered(1, partition=0, offset=7.5)", "cannot be understood"),
    "a fate with an offset that no log has": ("delivered(1, partition=0, offset=2**63)", "cannot be understood"),
    "a fate in a partition below the first": ("delivered(1, partition=-1, offset=7)", "cannot be understood"),
    "flags that are texts": (
        "write({'id': request['id'], 'error': {'name': 'X', 'code': 1, 'text': '', 'fatal': 'no'}})",
        "an error without name",
    ),
    "an object too deep to be read": (
        "write(b'{\"id\": 4, \"ok\": {\"x\": ' + b'[' * 100000 + b']' * 100000 + b'}}')",
        "no JSON object",
    ),
    "a rebalance without partitions": ("write({'event': 'rebalanced', 'kind': 'lost'})", "cannot be understood"),
}


@pytest.mark.parametrize(("trick", "sentence"), BREAKS.values(), ids=BREAKS)
def test_what_is_not_the_protocol_is_fatal_and_ends_the_driver(liar, trick, sentence):
    client = liar(f"tricks['commit'] = lambda request: {trick}")
    pid = client._process.pid
    fates = sent(client)
    error = refused(client.commit, 1)
    assert (error.call, error.name, error.fatal, error.retriable) == ("commit", BROKEN, True, False)
    assert sentence in error.text
    assert fates == []
    assert has_ended(pid)
    assert client._process.pid is None


POLLS = {
    "ends that are a list": "records=[], ends=[1]",
    "ends that are a text": "records=[], ends='t-0'",
    "half an end": "records=[], ends={'t-0': 1.5}",
    "an end below the first offset": "records=[], ends={'t-0': -1}",
    "no records": "",
    "records that are an object": "records={}",
    "a record that is a number": "records=[5]",
    "a record with half an offset": "records=[['t', 0, 1.5, None, 'dg==', [], 0]]",
    "a record below the first offset": "records=[['t', 0, -1, None, 'dg==', [], 0]]",
    "a record beyond every log": "records=[['t', 0, 2**63, None, 'dg==', [], 0]]",
    "a record in a partition that is a text": "records=[['t', '0', 1, None, 'dg==', [], 0]]",
    "a topic that is a number": "records=[[7, 0, 1, None, 'dg==', [], 0]]",
    "a value that is no base64": "records=[['t', 0, 1, None, '*', [], 0]]",
    "headers that are a number": "records=[['t', 0, 1, None, 'dg==', 5, 0]]",
    "a time that is a text": "records=[['t', 0, 1, None, 'dg==', [], 'now']]",
}


@pytest.mark.parametrize("results", POLLS.values(), ids=POLLS)
def test_what_a_poll_cannot_mean_is_not_read(liar, results):
    client = liar(f"tricks['poll'] = lambda request: ok(request, {results})")
    error = refused(client.poll, 1)
    assert (error.call, error.name, error.fatal) == ("poll", BROKEN, True)
    assert (client.ends(), client._process.pid) == ({}, None)


@pytest.mark.parametrize("value", ["'far'", "1.5", "True", "-3", "2**63", "[1]"])
@pytest.mark.parametrize(("call", "result"), [("position", "positions"), ("committed", "offsets")])
def test_an_offset_that_is_none_is_not_taken_for_one(liar, call, result, value):
    client = liar(f"tricks['{call}'] = lambda request: ok(request, {result}={{'t-0': {value}}})")
    error = refused(getattr(client, call), ["t-0"], *([1] if call == "committed" else []))
    assert (error.name, error.fatal) == (BROKEN, True)


def test_a_position_that_the_driver_does_not_know_is_none(liar):
    client = liar("tricks['position'] = lambda request: ok(request, positions={'t-0': None})")
    assert client.position(["t-0"]) == {"t-0": None}


@pytest.mark.parametrize(
    "wrong",
    [
        *("capabilities=5", "capabilities=[1]", "capabilities={'seek': 1}", "capabilities='seek'", "capabilities=['a'] * 1001"),
        *("transactions='two'", "transactions=3", "transactions=1.5", "transactions=True", "transactions=[1]"),
        *("client=7", "version=4.3", "runtime=['Go']", "client='c' * 2000"),
    ],
)
def test_a_hello_that_cannot_be_understood_is_none(liar, wrong):
    answer = f"{{**dict(protocol=1, client='c', version='1', runtime=''), **dict({wrong})}}"
    client = liar(f"tricks['hello'] = lambda request: ok(request, **{answer})", open=False)
    assert refused(client.open, 1).name == BROKEN


@pytest.mark.parametrize("group", ["None", "7", "'g'", "[1]", "True"])
def test_a_group_that_is_no_object_is_none(liar, group):
    client = liar(f"tricks['group'] = lambda request: ok(request, group={group})")
    assert refused(client.group).name == BROKEN


def test_a_second_answer_is_no_answer_to_the_next_request(liar):
    client = liar("tricks['begin'] = lambda request: [ok(request), ok(request)]")
    client.begin()
    error = refused(client.commit, 1)
    assert error.name == BROKEN
    assert "instead of" in error.text


def test_a_second_fate_is_not_believed(liar):
    client = liar(
        """
        def twice(request):
            delivered(1)
            delivered(1, error={'name': 'LATE', 'code': 1, 'text': 'no'})
            ok(request)
        tricks['flush'] = twice
        """
    )
    fates = sent(client)
    assert refused(client.flush, 1).name == BROKEN
    assert fates == [Delivered("t-0", 7)]


def test_a_refused_record_has_no_fate(liar):
    client = liar(
        """
        def refuse(request):
            write({'id': request['id'], 'error': {'name': 'FULL', 'code': 0, 'text': 'no room', 'retriable': True}})
        tricks['send'] = refuse
        tricks['flush'] = lambda request: [delivered(1), ok(request)]
        """
    )
    error = refused(client.send, Outgoing(topic="t", partition=0, value=b"v"), pytest.fail)
    assert (error.name, error.retriable) == ("FULL", True)
    assert refused(client.flush, 1).name == BROKEN


def test_an_acknowledgement_that_never_comes_leaves_the_record_without_one(liar):
    client = liar()
    fates = sent(client, 3)
    client.flush(1)
    client.commit(1)
    assert fates == []


def test_what_was_under_way_at_a_close_is_not_reported(liar):
    """A delivery may be in the pipe when the close is asked for."""
    client = liar("tricks['close'] = lambda request: [delivered(1), ok(request)]")
    fates = sent(client)
    client.close()
    assert fates == []
    assert client._process.pid is not None


def test_a_fate_after_another_producer_was_initialised_is_dropped_and_breaks_nothing(liar):
    """The old producer is let go of without waiting, and reports its records when it ends."""
    client = liar("""
        def begin(request):
            delivered(1)
            ok(request)
        tricks["begin"] = begin
    """)
    fates = sent(client)
    client.initialise(1)
    client.begin()
    assert fates == []


def test_a_fate_after_the_close_is_not_taken_for_a_record_of_the_next_client(liar):
    """Record numbers begin anew with each client: a late fate of the one before must not fit."""
    client = liar("tricks['close'] = lambda request: [ok(request), delivered(1)]")
    fates = sent(client)
    client.close()
    with pytest.raises(CallError, match="a delivery of a record that is not under way") as error:
        DriverClient(client._process, SETTINGS).open(1)
    assert (error.value.name, fates, client._process.pid) == (BROKEN, [], None)


@pytest.mark.parametrize(
    ("trick", "sentence"),
    [
        ("sys.exit(3)", "exit 3"),
        ("os.kill(os.getpid(), 11)", "signal 11"),
        ("[raw(b'\\0\\0'), os._exit(1)]", ""),
        ("[raw((1000).to_bytes(4, 'big') + b'{'), os._exit(1)]", "1 of 1000 bytes"),
        ("[os.close(1), time.sleep(60)]", "closed its standard output"),
    ],
)
def test_a_death_in_the_middle_of_a_commit_is_fatal(liar, trick, sentence, monkeypatch):
    if "sleep" in trick:  # it has to be given up; the others end
        monkeypatch.setattr("fencepost.harness.drivers.process._END_S", 0.2)
    client = liar(f"tricks['commit'] = lambda request: {trick}")
    pid = client._process.pid
    error = refused(client.commit, 1)
    assert error.name in (GONE, BROKEN)
    assert error.fatal
    assert sentence in error.text
    assert has_ended(pid)
    assert refused(client.abort, 1).name == GONE


def test_an_answer_before_the_end_counts_whenever_the_end_is_seen(liar, tmp_path):
    """Both may come between two looks, and a child of the driver may hold its standard output open."""
    client = liar(f"""
        import subprocess
        def commit(request):
            subprocess.Popen([sys.executable, '-c', {CHILD!r}])
            while not os.path.exists({str(tmp_path / "now")!r}):
                time.sleep(0.01)
            ok(request)
            os._exit(0)
        tricks['commit'] = commit
    """)

    def nothing_was_ready():
        (tmp_path / "now").touch()
        assert has_ended(client._process._popen.pid)

    client._process._on_wait = nothing_was_ready
    client.commit(1)


def test_a_hanging_call_ends_with_the_driver(liar):
    client = liar("tricks['commit'] = lambda request: time.sleep(600)")
    timer = threading.Timer(0.1, os.kill, (client._process.pid, signal.SIGKILL))
    timer.start()
    error = refused(client.commit, 1)
    timer.join()
    assert (error.name, error.fatal) == (GONE, True)
    assert "signal 9" in error.text


WORKER = """
import sys, time
from fencepost.harness.drivers.process import DriverProcess
process = DriverProcess([sys.executable, "-I", "-S", sys.argv[1]])
process.start()
print(process.pid, flush=True)
time.sleep(600)
"""


def test_a_driver_that_ignores_the_end_of_its_input_is_killed_with_its_worker(tmp_path):
    path = tmp_path / "driver.py"
    path.write_text(DRIVER.replace("TRICKS", "") + "time.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-c", WORKER, str(path)], stdout=subprocess.PIPE, text=True) as worker:
        pid = int(worker.stdout.readline())
        worker.kill()
    assert has_ended(pid)


def test_a_client_opens_again_after_its_driver_died(liar):
    client = liar("tricks['commit'] = lambda request: os._exit(1)")
    assert refused(client.commit, 1).name == GONE
    client.close()
    client.open(1)
    client.begin()


def test_a_close_that_fails_kills_the_driver(liar):
    client = liar(
        "tricks['close'] = lambda request: write({'id': request['id'], 'error': {'name': 'NO', 'code': 0, 'text': ''}})"
    )
    pid = client._process.pid
    client.close()
    assert has_ended(pid)


def test_a_record_of_a_megabyte_goes_there_and_back(liar):
    client = liar(
        """
        def keep(request):
            global value
            value = request['value']
            ok(request)
        tricks['send'] = keep
        tricks['poll'] = lambda request: ok(request, records=[['t', 0, 5, None, value, [], None]], ends={'t-0': 6})
        """
    )
    value = os.urandom(1_000_000)
    client.send(Outgoing(topic="t", partition=0, value=value), pytest.fail)
    (record,) = client.poll(1)
    assert (record.value, record.offset, record.timestamp_ms) == (value, 5, None)
    assert client.ends() == {"t-0": 6}


@pytest.mark.parametrize(
    "results",
    [
        "records=[['t', 0, 5]]",
        "records=[['t', 0, 'far', None, '', [], 1]]",
        "records=[['t', 0, 5, None, 'no base64!', [], 1]]",
        "records=[['t', 0, 5, None, '', [['only a name']], 1]]",
        "records=7",
        "ends={'t-0': 'there'}, records=[]",
        "",
    ],
)
def test_records_that_cannot_be_understood_are_fatal(liar, results):
    client = liar(f"tricks['poll'] = lambda request: ok(request, {results})")
    error = refused(client.poll, 1)
    assert (error.name, error.fatal) == (BROKEN, True)
    assert client._process.pid is None


def test_many_events_come_before_an_answer(liar):
    client = liar(
        """
        def chatter(request):
            for _ in range(2000):
                write({'event': 'log', 'level': 'info', 'text': 'x'})
            ok(request)
        tricks['flush'] = chatter
        """
    )
    client.flush(1)
    client.begin()


@pytest.mark.parametrize(
    ("trick", "sentence"),
    [
        ("ok(request, protocol=2)", "version 2"),
        ("ok(request)", "version None"),
        ("write({'id': request['id'], 'error': {'name': 'UNSUPPORTED', 'code': 0, 'text': 'too old'}})", "too old"),
        ("print('usage: driver [options]', flush=True)", "standard output"),
        ("os._exit(127)", "exit 127"),
    ],
)
def test_a_program_that_is_no_driver_is_named_at_the_start(liar, trick, sentence):
    error = refused(liar(f"tricks['hello'] = lambda request: {trick}", open=False).open, 1)
    assert error.call == "hello"
    assert sentence in error.text


def test_a_program_that_cannot_be_started_is_named(tmp_path):
    error = refused(DriverProcess([str(tmp_path / "absent")]).start)
    assert (error.name, error.fatal) == (GONE, True)
    assert "absent" in error.text


SILENT = {
    "no answer": "None",
    "it reads nothing more": "time.sleep(600)",
    "events without end": "[write({'event': 'log', 'level': 'info', 'text': 'x'}) for _ in iter(int, 1)]",
    "bytes of a frame that never ends": "[raw((1000).to_bytes(4, 'big')), time.sleep(600)]",
}


@pytest.mark.parametrize("trick", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize(("call", "limit"), [("hello", "HELLO_S"), ("commit", "ANSWER_S"), ("close", "CLOSE_S")])
def test_no_answer_is_awaited_without_end(liar, monkeypatch, call, limit, trick):
    client = liar(f"tricks['{call}'] = lambda request: {trick}", open=False)
    if call == "hello":
        monkeypatch.setattr(f"fencepost.harness.drivers.process.{limit}", 0.5)
        error = refused(client.open, 1)
        assert (error.name, "no answer to `hello` within" in error.text) == (BROKEN, True)
    else:
        client.open(1)
        monkeypatch.setattr(f"fencepost.harness.drivers.process.{limit}", 0.5)
        pid = client._process.pid
        if call == "commit":
            assert refused(client.commit, 1).name == BROKEN
        client.close()  # raises nothing
        assert has_ended(pid)
    assert client._process.pid is None


def test_a_driver_that_writes_without_end_is_not_read_without_end(liar, monkeypatch):
    monkeypatch.setattr("fencepost.harness.drivers.pipes.LARGEST_ANSWER", 1 << 20)
    client = liar("tricks['commit'] = lambda request: [write({'event': 'log', 'text': 'x' * 1000}) for _ in iter(int, 1)]")
    error = refused(client.commit, 1)
    assert (error.name, "without an answer among them" in error.text) == (BROKEN, True)


def test_a_driver_that_takes_no_request_is_given_up(liar, monkeypatch):
    """A request that is larger than a pipe, and a driver that does not read."""
    client = liar("tricks['begin'] = lambda request: [ok(request), time.sleep(600)]")
    client.begin()
    monkeypatch.setattr("fencepost.harness.drivers.process.ANSWER_S", 0.5)
    error = refused(client.send, Outgoing(topic="t", partition=0, value=b"v" * 1_000_000), pytest.fail)
    assert (error.name, "no answer to `send`" in error.text) == (BROKEN, True)


def test_a_large_request_and_many_events_pass_each_other(liar):
    """Neither waits for the other to read."""
    client = liar(
        """
        def begin(request):
            ok(request)
            for _ in range(5000):
                write({'event': 'log', 'level': 'info', 'text': 'x' * 100})
        tricks['begin'] = begin
        """
    )
    client.begin()
    client.send(Outgoing(topic="t", partition=0, value=b"v" * 1_000_000), pytest.fail)


def test_a_worker_that_was_frozen_has_not_waited(monkeypatch):
    """Ten minutes between two looks at the clock count as one step."""
    now = [0.0]
    monkeypatch.setattr("fencepost.harness.drivers.pipes.time.monotonic", lambda: now[0])

    class Frozen:
        def poll(self, _ms):
            now[0] += 600
            return [(1, 1)]

    patience = Patience(4 * COUNTED_S)
    for _ in range(3):
        assert patience.wait(Frozen()) == [(1, 1)]
    with pytest.raises(SilenceError):
        patience.wait(Frozen())


CHILD = "import time; time.sleep(600)"
STARTS = {
    "a child": "subprocess.Popen([sys.executable, '-c', child])",
    "a child in a session of its own": "subprocess.Popen([sys.executable, '-c', child], start_new_session=True)",
}


@pytest.mark.parametrize("how", ["end", "death", "kill_all"])
@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)
def test_what_a_driver_has_started_ends_with_it(liar, starts, how):
    client = liar(
        f"""
        import subprocess
        child = {CHILD!r}
        def begin(request):
            ok(request, positions={{'t-0': {starts}.pid}})
        tricks['position'] = begin
        tricks['commit'] = lambda request: os._exit(1)
        """
    )
    pid = client.position(["t-0"])["t-0"]
    if how == "end":
        client._process.end()
    elif how == "death":
        assert refused(client.commit, 1).name == GONE
    else:
        kill_all()
    assert has_ended(pid)
