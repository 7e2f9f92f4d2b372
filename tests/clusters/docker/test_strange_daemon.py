"""A daemon or a helper that answers what Docker never answers: a sentence, and no traceback."""

from __future__ import annotations

import queue
from collections import deque
from types import SimpleNamespace

import pytest

from fencepost.clusters.docker import container, documents, leftovers
from fencepost.clusters.docker.container import Container
from fencepost.clusters.docker.network import Helper, Network
from fencepost.clusters.fault_tools import disks
from fencepost.harness.api import ClusterError

WRONG = [None, 7, "text", [], {}, {"State": 7}, {"Id": 7}, {"ExitCode": "0"}, {"StatusCode": None}]
SHAPES = [documents.Inspected, documents.Ended, documents.Made, documents.Executed]
INSPECTED = [
    {"State": {"Pid": "7"}, "NetworkSettings": {"Networks": {}}},
    {"State": {"Pid": 7}, "NetworkSettings": {"Networks": []}},
    {"State": {"Pid": 7}, "NetworkSettings": {"Networks": {"n": {"IPAddress": None}}}},
    {"State": {"Pid": 7}, "NetworkSettings": None},
]


@pytest.mark.parametrize("answer", WRONG)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_document_of_another_shape_is_a_sentence(shape, answer):
    with pytest.raises(ClusterError, match="the Docker daemon answers what cannot be understood"):
        documents.read(answer, shape)


def api(**methods):
    return SimpleNamespace(api=SimpleNamespace(**methods))


@pytest.mark.parametrize("answer", INSPECTED)
def test_a_container_that_cannot_be_understood_does_not_start_and_is_removed(answer, monkeypatch):
    removed = []
    stream = SimpleNamespace(_sock=SimpleNamespace(settimeout=lambda _: None))
    monkeypatch.setattr(container, "frames_iter", lambda *_, **__: iter(()))
    client = api(
        attach_socket=lambda *_, **__: stream,
        inspect_container=lambda _: answer,
        wait=lambda *_, **__: {"StatusCode": 0},
        remove_container=lambda name, force: removed.append(name),
    )
    client.containers = SimpleNamespace(create=lambda *_, **__: SimpleNamespace(id="1", start=lambda: None))
    output = SimpleNamespace(write=lambda *_: None, close=lambda: None)
    with pytest.raises(ClusterError, match=r"container c1 \(image\) did not start: .*cannot be understood"):
        Container(client, "c1", "image", ["true"], output, {})
    assert removed == ["c1"]


@pytest.mark.parametrize(
    ("volumes", "containers", "networks"),
    [
        (7, [], []),
        ({"Volumes": 7}, [], []),
        ({"Volumes": None}, 7, []),
        ({"Volumes": None}, ["c1"], []),
        ({"Volumes": None}, [{"Labels": ["a"]}], []),
        ({"Volumes": None}, [{"Names": 7}], []),
        ({"Volumes": None}, [], [{"Id": 7}]),
    ],
)
def test_a_list_of_another_shape_is_a_sentence(volumes, containers, networks):
    client = api(volumes=lambda **_: volumes, containers=lambda **_: containers, networks=lambda **_: networks)
    with pytest.raises(ClusterError, match="the Docker daemon answers what cannot be understood"):
        leftovers._labelled(client, "label")


def made_container(**methods):
    made = Container.__new__(Container)
    made.name, made.id, made._pid, made._client = "c1", "1", 7, api(**methods)
    return made


def test_a_program_that_writes_without_end_is_a_sentence(monkeypatch):
    monkeypatch.setattr(container, "MOST_OUTPUT", 1000)
    made = made_container(
        exec_create=lambda *_, **__: {"Id": "2"}, exec_start=lambda *_, **__: iter(lambda: (b"x" * 10, None), 0)
    )
    with pytest.raises(ClusterError, match="a program in a container wrote more than"):
        made.execute(["python"], "0")


def test_what_a_program_prints_and_its_errors_stay_apart():
    parts = [(b"7", None), (None, b"oh"), (b"8", b"!")]
    made = made_container(
        exec_create=lambda *_, **__: {"Id": "2"}, exec_start=lambda *_, **__: iter(parts), exec_inspect=lambda _: {"ExitCode": 0}
    )
    assert made.execute(["python"], "0") == "78"
    made._client.api.exec_start, made._client.api.exec_inspect = lambda *_, **__: iter(parts), lambda _: {"ExitCode": 3}
    with pytest.raises(ClusterError, match="ended with status 3: oh!"):
        made.execute(["python", "-c", "x"], "0")


@pytest.fixture
def helper():
    made = Helper.__new__(Helper)
    made.node, made._replies, made._pending, made._errors = "n1", queue.Queue(), b"", deque(maxlen=5)
    return made


@pytest.mark.parametrize("line", [b"Welcome!", b"7", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_helper_that_answers_no_object_is_a_sentence(helper, line):
    helper.write(1, line + b"\n")
    with pytest.raises(ClusterError, match="the helper of n1: it answers what cannot be understood"):
        helper._reply("renew", 1)


@pytest.mark.parametrize(
    ("do", "line"),
    [
        ("ready", b"{}"),
        ("drop", b'{"handle": "7"}'),
        ("counters", b'{"counters": {"1": 7}}'),
        ("received", b'{"received": [[1]]}'),
        ("unslow", b'{"counted": [1]}'),
        ("missing_capabilities", b'{"missing_capabilities": []}'),
    ],
)
def test_a_helpers_answer_of_another_shape_is_a_sentence(helper, do, line):
    helper.write(1, line + b"\n")
    with pytest.raises(ClusterError, match=f"the helper of n1 answers `{do}` with what cannot be understood"):
        helper._reply(do, 1)


@pytest.mark.parametrize("printed", ["", "much", "-1", "None", "[1]", "__import__('os')", "(" * 1000])
def test_a_functions_result_of_another_shape_is_a_sentence(printed):
    network = Network.__new__(Network)
    network._helper = lambda node: SimpleNamespace(container=SimpleNamespace(execute=lambda *_: printed))
    with pytest.raises(ClusterError, match="the helper of n1 answers what cannot be understood"):
        network.run_in_helper("n1", disks.free)
