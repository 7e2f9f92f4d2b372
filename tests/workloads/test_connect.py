"""The workload `connect`: its options, what its conductor asks, and what records and logs say."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from fencepost.harness.api import CallError, ConnectAnswer, LogEntry, LogRecord, Operation, Outcome, Polled
from fencepost.harness.perform.plan_roles import workers_of
from fencepost.workloads.connect import Connect, own_offsets
from fencepost.workloads.support.connect_records import OVERRIDDEN
from fencepost.workloads.support.connect_refusals import FirstRecords, without_definitions

PARTITIONS = ["records-0", "records-1"]
CONDUCTOR = next(role for role in Connect().roles() if role.conducts)


# --------------------------------------------------------------------------------------------------
# Options
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"support": "on"}, 'support: "on" is none of disabled, preparing, enabled'),
        ({"workers": 3, "support": ("enabled", "disabled")}, "one for each of the 3, not 2"),
        ({"changes": ("explode",)}, 'changes: "explode" is none of'),
        ({"changes": ("alter-offsets",), "version": "3.5.2"}, "alter-offsets needs Kafka Connect 3.6, not 3.5.2"),
        ({"changes": ("preflight",), "support": "preparing"}, "preflight is for the numbered source"),
        ({"connector": "my.Source"}, "plugins: the directory or jar"),
        ({"rest": ("worker-1:8083",)}, 'rest: "worker-1:8083" is no address'),
        ({"internal_topics": ("configs",)}, "internal_topics: two names"),
        ({"config": {"file": "{file}"}}, "lines: how many"),
        ({"position_by": "somehow"}, "no way to say a number"),
        ({"source_by": "nose"}, "no way to name an input"),
        ({"place_by": "json /place"}, "place_by and count_by: both"),
        ({"count_by": "3"}, "place_by and count_by: both"),
        ({"place_by": "json /place", "count_by": "many"}, "no way to say a number"),
        ({"position_by": ("json /a", "nose"), "offset_position": ("/a", "/b")}, "no way to say a number"),
        ({"position_by": ("json /a", "json /b")}, "offset_position has 1 parts, and position_by 2"),
        ({"position_by": ("json /a", "json /b"), "offset_position": ("/a", "/b"), "positions": "dense"}, "does not rise by one"),
        ({"sequence_by": "json /id", "offset_unit": 2}, "are for positions that are one number"),
        ({"positions": "sparse", "changes": ("alter-offsets",)}, "alter-offsets needs dense positions"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        Connect(**options)


@pytest.mark.parametrize(
    ("count_by", "value", "kind"),
    [
        ("json /of", {"place": 1, "of": 3}, "record 2/3"),
        ("json /of", {"place": 0, "of": 1}, "record"),
        ("3", {"place": 2}, "record 3/3"),
        ("3", {"place": 3}, "strange"),
        ("json /of", {"place": -1, "of": 3}, "strange"),
        ("json /of", {"place": 0}, "strange"),
    ],
)
def test_a_record_says_which_one_of_its_position_it_is(count_by, value, kind):
    records = Connect(place_by="json /place", count_by=count_by)._records
    value = json.dumps({"source": "a", "number": 7, **value}).encode()
    entry = records.entry(Polled("records-0", 0, value))
    assert entry.kind == kind
    assert kind == "strange" or (entry.name, entry.number) == ("a", 7)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "dense"),
        ({"connector": "org.apache.kafka.connect.file.FileStreamSourceConnector"}, "dense"),
        ({"connector": "my.Source", "plugins": ("mine",)}, "unstated"),
        ({"connector": "my.Source", "plugins": ("mine",), "positions": "dense"}, "dense"),
        ({"positions": "sparse"}, "sparse"),
        ({"positions": "sparse", "boundary": "connector"}, "ordered"),  # what a task aborts by itself need not come again
        ({"sequence_by": "json /id"}, "unstated"),
    ],
)
def test_the_contract_learns_what_positions_are(options, kind):
    assert {role.connect.positions for role in Connect(**options).roles() if role.connect} == {kind}


BINLOG = Connect(
    source_by="",
    position_by=("json /source/file", "json /source/pos", "json /source/row"),
    offset_position=("/file", "/pos", "/row"),
)


def test_a_position_of_several_parts_is_written_out():
    value = json.dumps({"source": {"file": "b.03", "pos": 154, "row": 0}}).encode()
    assert BINLOG.entry(log_record("records", None, value), "fp-") == LogEntry('record at ["b.03",154,0]', "", -1)
    stored = log_record(OFFSETS, b'["source",{"server":"s"}]', b'{"file":"b.03","pos":154,"row":0}')
    assert BINLOG.entry(stored, "fp-") == LogEntry('offset at ["b.03",154,0]', "", 0)
    assert BINLOG.entry(log_record("records", None, b'{"source":{"file":"b","pos":1,"row":null}}'), "fp-").kind == "strange"


def test_a_part_of_a_position_may_lie_in_a_text_that_is_a_document():
    """As Debezium's `source.sequence` for PostgreSQL, with the positions of the last commit and of the record."""
    records = Connect(source_by="", position_by="json /source/sequence/1", sequence_by="json /after/id", offset_position="/lsn")
    value = json.dumps({"source": {"sequence": '["24000528","24000584"]'}, "after": {"id": 7}}).encode()
    assert records.entry(log_record("records", None, value), "fp-") == LogEntry("record at [24000584]", "", 7)


def test_a_stored_offset_without_a_position_is_none_that_could_be_compared():
    stored = log_record(OFFSETS, b'["source",{"source":"3"}]', b'{"anything":1}')
    assert Connect(offset_position="").entry(stored, "fp-") == LogEntry("stored", "3", -1)


def test_each_worker_may_have_support_of_its_own():
    roles = Connect(workers=3, support=("enabled", "disabled", "enabled")).roles()
    assert [role.worker.support for role in roles if role.worker] == ["enabled", "disabled", "enabled"]


def test_the_numbered_source_comes_along_and_another_connector_is_somebodys_own():
    (ours, *_), (theirs, *_) = Connect().roles(), Connect(connector="my.Source", plugins=("mine",)).roles()
    assert ours.connect.ours
    assert ours.connect.plugins[0].endswith("numbered.jar")
    assert not theirs.connect.ours


def test_workers_on_another_cluster_send_the_connectors_clients_to_the_topics_one():
    workload = Connect(workers_cluster="second")
    assert {role.cluster for role in workload.roles() if role.worker} == {"second"}
    assert {role.cluster for role in workload.roles() if not role.worker} == {""}
    config = workload.configuration("records", 2)
    assert {key for key, value in config.items() if value == "{bootstrap}"} == {
        f"{part}.override.bootstrap.servers" for part in ("producer", "consumer", "admin")
    }
    logs = workload.logs("fp-")
    assert [name for name in logs if name.startswith("second/")] == [
        "second/fp-connect-configs",
        "second/fp-connect-offsets",
        "second/__transaction_state",
    ]
    assert {"fp-connect-offsets", "__transaction_state", "records"} <= set(logs)
    with pytest.raises(ValueError, match="workers that run already are where they are"):
        Connect(workers_cluster="second", rest=("http://w:8083",))


def test_each_of_several_connect_clusters_has_a_group_topics_and_a_conductor():
    workload = Connect(connect_clusters=2, workers=2)
    roles = workload.roles()
    assert [role.connect.group for role in roles if role.worker] == ["connect", "connect", "connect2", "connect2"]
    assert list(workload.topics()) == ["records", "records2"]
    conductors = [role for role in roles if role.conducts]
    requests = [next(workload.operations(role, ["records-0", "records2-0"], Random(1))).request for role in conductors]
    assert [request["body"]["topic"] for request in requests] == ["records", "records2"]
    assert {request["path"] for request in requests} == {"/connectors/source/config"}
    assert [workers_of(roles, role) for role in conductors] == [{"c0", "c1"}, {"c2", "c3"}]
    assert {"fp-connect2-configs", "fp-connect2-offsets", "records2-source-offsets"} <= set(workload.logs("fp-"))
    with pytest.raises(ValueError, match="connect_clusters: workers that run already"):
        Connect(connect_clusters=2, rest=("http://w:8083",))


def test_sources_of_one_name_differ_by_their_connect_cluster():
    workload = Connect(connect_clusters=2)
    record, offset = (None, b'{"source":"3","number":4}'), (b'["source",{"source":"3"}]', b'{"number":4}')
    entries = {
        topic: workload.entry(log_record(topic, *content), "fp-")
        for topic, content in (
            ("records", record),
            ("records2", record),
            ("fp-connect-offsets", offset),
            ("fp-connect2-offsets", offset),
            ("records2-source-offsets", offset),
        )
    }
    assert [(entry.kind, entry.name, entry.number) for entry in entries.values()] == [
        ("record", "3", 4),
        ("record", "2/3", 4),
        ("offset", "3", 4),
        ("offset", "2/3", 4),
        ("offset", "2/3", 4),
    ]


def test_workers_that_run_already_are_used_and_not_started():
    workload = Connect(rest=("http://w:8083",), support="preparing", internal_topics=("my-configs", "my-offsets"))
    assert not any(role.runs for role in workload.roles())
    (conductor,) = [role for role in workload.roles() if role.conducts]
    assert (conductor.rest, conductor.connect.support) == (("http://w:8083",), "preparing")
    assert workload.logs("fp-") == ("fp-records", "fp-records-source-offsets", "my-offsets")
    created = next(workload.operations(conductor, ["fp-r-records-0"], Random(1)))
    assert created.request["path"] == "/connectors/fp-r-records-source/config", "no connector of somebody's own has this name"
    stored = [
        log_record("my-offsets", b'["%s",{"source":"3"}]' % name, b'{"number":17}') for name in (b"fp-records-source", b"theirs")
    ]
    assert [workload.entry(record, "fp-") for record in stored] == [LogEntry("offset", "3", 17), None]


# --------------------------------------------------------------------------------------------------
# The conductor
# --------------------------------------------------------------------------------------------------
def requests_of(workload, answers, count):
    """The first requests of a conductor that is answered so; (method, path, tasks.max)."""
    plans, given = workload.operations(CONDUCTOR, PARTITIONS, Random(1)), iter(answers)
    planned, requests = next(plans), []
    for _ in range(count):
        request = planned.request
        requests.append(
            (request["method"], request["path"].removeprefix("/connectors/source"), request.get("body", {}).get("tasks.max"))
        )
        op = Operation.of(3, 0, planned)
        op.outcome, document = next(given, (Outcome.OK, None))
        op.value["answer"] = document
        planned = plans.send(op)
    return requests


def test_the_connector_is_created_until_it_is_and_then_looked_at():
    answers = [(Outcome.FAIL, None), (Outcome.INFO, None)]
    assert requests_of(Connect(tasks=2), answers, 5) == [("PUT", "/config", "2")] * 3 + [("GET", "/status", None)] * 2


@pytest.mark.parametrize(("status", "broken"), [(400, True), (409, False)])
def test_a_connector_that_is_refused_for_its_configuration_ends_the_run(status, broken):
    plans = Connect().operations(CONDUCTOR, PARTITIONS, Random(1))
    planned = next(plans)
    for _ in range(5):
        op = Operation.of(3, 0, planned)
        op.outcome, op.value["status"], op.value["answer"] = Outcome.FAIL, status, {"message": "topic: missing"}
        planned = plans.send(op)
    assert op.broken.endswith("(`config` of the workload): topic: missing") == broken


THEIRS = Connect(connector="my.Source", plugins=("mine",), offset_position="/lsn")
INVALID = {"error_count": 1, "configs": [{"value": {"name": "host", "errors": ["nobody there"]}}, {"value": {"name": "x"}}]}


def ended(plans, planned, outcome, answer, status=200):
    """The next request, and the operation that has ended so."""
    op = Operation.of(3, 0, planned)
    op.outcome, op.value["status"], op.value["answer"] = outcome, status, answer
    return plans.send(op), op


def test_a_configuration_is_judged_by_the_connector_before_it_is_made():
    plans = THEIRS.operations(CONDUCTOR, PARTITIONS, Random(1))
    planned = next(plans)
    assert planned.request["path"] == "/connector-plugins/my.Source/config/validate"
    assert {"name", "connector.class", "tasks.max"} <= set(planned.request["body"])
    planned, op = ended(plans, planned, Outcome.OK, INVALID)
    assert not op.broken, "a service may be there a moment later"
    planned, op = ended(plans, planned, Outcome.OK, INVALID)
    assert op.broken.endswith("(`config` of the workload): host: nobody there")
    plans = THEIRS.operations(CONDUCTOR, PARTITIONS, Random(1))
    planned, op = ended(plans, next(plans), Outcome.OK, {"error_count": 0, "configs": []})
    assert (planned.request["path"], op.broken) == ("/connectors/source/config", "")


def test_a_class_that_no_worker_has_ends_the_run_at_once():
    plans = THEIRS.operations(CONDUCTOR, PARTITIONS, Random(1))
    message = "Failed to find any class that implements Connector and which name matches my.Source, available connectors are: ..."
    _, op = ended(plans, next(plans), Outcome.INFO, {"error_code": 500, "message": message}, 500)
    assert op.broken.endswith("which name matches my.Source")


@pytest.mark.parametrize(("offset", "broken"), [({"lsn": 5}, ""), ({"pos": 5}, "there is no /lsn: {'server': 's'} {'pos': 5}")])
def test_stored_offsets_that_tell_no_position_end_the_run_as_soon_as_there_are_any(offset, broken):
    plans = replace(THEIRS, source_by="").operations(CONDUCTOR, PARTITIONS, Random(1))
    planned, _ = ended(plans, next(plans), Outcome.OK, {"configs": []})
    planned, _ = ended(plans, planned, Outcome.OK, None)
    planned, _ = ended(plans, planned, Outcome.OK, {})
    assert planned.request["path"] == "/connectors/source/offsets"
    planned, op = ended(plans, planned, Outcome.OK, {"offsets": []})
    planned, op = ended(plans, planned, Outcome.OK, {})
    planned, op = ended(plans, planned, Outcome.OK, {"offsets": [{"partition": {"server": "s"}, "offset": offset}]})
    assert op.broken.endswith(broken)
    assert bool(op.broken) == bool(broken)
    planned, _ = ended(plans, planned, Outcome.OK, {})
    assert planned.request["path"] == "/connectors/source/status", "it is not asked again"


def test_records_none_of_which_tells_its_position_end_the_run():
    first = FirstRecords()
    assert first.unreadable([("strange", "there is no /lsn")] * 9) == ""
    assert first.unreadable([("strange", "there is no /lsn")] * 3) == (
        "None of the first 12 records tells its position (`source_by`, `position_by`): there is no /lsn"
    )
    assert first.unreadable([("strange", "there is no /lsn")] * 30) == "", "it is said once"
    other = FirstRecords()
    assert other.unreadable([("strange", ""), ("record", "a")] + [("strange", "")] * 20) == ""


def test_tasks_that_have_failed_are_restarted_unless_that_is_not_wanted():
    failed = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED"}]}
    answers = [(Outcome.OK, None), (Outcome.OK, failed)]
    assert requests_of(Connect(), answers, 3)[-1] == ("POST", "/restart?includeTasks=true&onlyFailed=true", None)
    assert requests_of(Connect(restart_failed=False), answers, 3)[-1] == ("GET", "/status", None)


@pytest.mark.parametrize(
    ("change", "requests"),
    [
        ("restart", ["POST /restart?includeTasks=true"]),
        ("restart-task", ["POST /tasks/0/restart"]),
        ("pause", ["PUT /pause", "PUT /resume"]),
        ("stop", ["PUT /stop", "PUT /resume"]),
        ("delete", ["DELETE ", "PUT /config"]),
        ("tasks", ["PUT /config"]),
        ("own-offsets", ["PUT /config"]),
        ("preflight", ["PUT -refused/config", "DELETE -refused"]),
        ("overrides", ["PUT /config"]),
        ("unsigned", ["PUT /fence"]),
    ],
)
def test_a_change_is_made_every_so_often_and_undone(change, requests):
    made = requests_of(Connect(changes=(change,), change_every_s=2), [], 4 + len(requests))
    assert [f"{method} {path}" for method, path, _ in made[3:-1]] == requests
    assert made[-1][:2] == ("GET", "/status")


def test_what_is_overridden_stays_so_and_the_workers_settings_are_recorded():
    workload = Connect(changes=("overrides",), change_every_s=1, worker_settings={"connect.protocol": "eager", "x": 1})
    plans = workload.operations(CONDUCTOR, PARTITIONS, Random(1))
    planned, configured = next(plans), []
    for _ in range(8):
        configured += [planned.request] if planned.request["path"].endswith("/config") else []
        op = Operation.of(3, 0, planned)
        op.outcome, op.value["answer"] = Outcome.OK, None
        planned = plans.send(op)
    overridden = [request["body"].get("producer.override.transactional.id") for request in configured[:3]]
    assert overridden == [None, OVERRIDDEN, OVERRIDDEN]
    assert {str(request["workers"]) for request in configured} == {"{'connect.protocol': 'eager'}"}
    with pytest.raises(ValueError, match="unsigned needs workers that sign"):
        Connect(changes=("unsigned",), worker_settings={"connect.protocol": "eager"})
    entry = workload.entry(log_record(STATES, *state(OVERRIDDEN, 0)), "fp-")
    assert (entry.kind, entry.name) == ("initialised", OVERRIDDEN)


def test_no_more_changes_are_made_than_are_wanted():
    made = requests_of(Connect(changes=("restart",), change_every_s=2, most_changes=2), [], 30)
    assert sum(path == "/restart?includeTasks=true" for _, path, _ in made) == 2


def test_another_number_of_tasks_is_another_one():
    made = requests_of(Connect(tasks=1, changes=("tasks",), change_every_s=1), [], 20)
    assert [tasks for _, path, tasks in made if path == "/config"][:4] == ["1", "2", "1", "2"]


STORED = {"offsets": [{"partition": {"source": "3"}, "offset": {"number": 100}}, {"partition": {"source": "4"}, "offset": None}]}


def altering(change, answers):
    """The requests of a change of offsets, until it goes on."""
    workload = Connect(changes=(change,), change_every_s=1)
    plans, given, requests = workload.operations(CONDUCTOR, PARTITIONS, Random(1)), iter(answers), []
    planned = next(plans)
    while not requests or not requests[-1]["path"].endswith("/resume"):
        requests.append(planned.request)
        op = Operation.of(3, 0, planned)
        op.outcome, op.value["answer"] = (Outcome.OK, None) if planned.request["method"] == "PUT" else next(given)
        planned = plans.send(op)
    return requests[2:]


def test_stored_offsets_are_altered_once_the_connector_has_stopped():
    running, stopped = (Outcome.FAIL, {"error_code": 400}), (Outcome.OK, {})
    stop, _, first, _, second, resume = altering(
        "alter-offsets", [stopped, (Outcome.OK, STORED), running, (Outcome.OK, STORED), stopped]
    )
    assert [request["path"].rpartition("/")[2] for request in (stop, first, second, resume)] == [
        "stop",
        "offsets",
        "offsets",
        "resume",
    ]
    (entry,), ((source, number),) = second["body"]["offsets"], second["altered"]
    assert (entry["partition"], source) == ({"source": "3"}, "3")
    assert 60 <= entry["offset"]["number"] == number <= 140


def test_a_request_that_may_have_been_carried_out_is_not_made_again():
    requests = altering("reset-offsets", [(Outcome.OK, {}), (Outcome.OK, {}), (Outcome.OK, STORED), (Outcome.INFO, None)])
    assert [request["method"] for request in requests] == ["PUT", "GET", "GET", "DELETE", "PUT"]


def test_a_position_is_altered_in_the_connectors_own_unit():
    workload = Connect(source_by="", offset_position="/at/byte", offset_unit=12, next_offset=True)
    stored = {"partition": {"filename": "f"}, "offset": {"at": {"byte": 120, "line": 1}}}
    assert workload.moved(stored, -3) == ({**stored, "offset": {"at": {"byte": 84, "line": 1}}}, ["", 6])
    assert workload.moved(stored, -30)[0]["offset"]["at"]["byte"] == 12


def test_the_same_seed_asks_the_same():
    first, second = (list(islice(Connect().operations(CONDUCTOR, PARTITIONS, Random(1)), 20)) for _ in range(2))
    assert first == second


def test_a_connector_with_an_offsets_topic_of_its_own_is_configured_with_its_name():
    assert Connect(own_offsets=True).configuration("fp-records", 2)["offsets.storage.topic"] == own_offsets("fp-records")
    assert Connect().configuration("records", 2, moved=True)["offsets.storage.topic"] == own_offsets("records")
    assert "exactly.once.support" not in Connect(support="disabled").configuration("records", 2)
    assert Connect(config={"file": "/tmp/{topic}", "fast": True}).configuration("records", 2)["file"] == "/tmp/records"


class Rest:
    def __init__(self, answer, directory=Path()):
        self.answer, self.directory, self.bodies = answer, directory, []

    def ask(self, method, path, body=None):
        self.bodies.append(body)
        if isinstance(self.answer, CallError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (ConnectAnswer(201, {"name": "source"}, "c1"), Outcome.OK),
        (ConnectAnswer(409, {"message": "rebalance"}, "c1"), Outcome.FAIL),
        (ConnectAnswer(500, None, "c1"), Outcome.INFO),
        (CallError("ask", "UNREACHED", 0, "closed", retriable=True), Outcome.FAIL),
        (CallError("ask", "UNANSWERED", 0, "silent"), Outcome.INFO),
    ],
)
def test_a_request_is_recorded_with_its_answer(answer, outcome):
    workload = Connect()
    op = Operation.of(3, 0, next(workload.operations(CONDUCTOR, PARTITIONS, Random(1))))
    op.planned = replace(op.planned, think_s=0.0)
    assert workload.perform(op, Rest(answer), "r") is outcome
    if isinstance(answer, CallError):
        assert op.errors[0]["name"] == answer.name
    else:
        assert (op.value["status"], op.value["worker"], op.value["answer"]) == (answer.status, "c1", answer.document)


def test_a_connector_that_reads_a_file_gets_one_with_numbered_lines(tmp_path):
    workload = Connect(config={"file": "{file}"}, lines=3)
    op = Operation.of(3, 0, replace(next(workload.operations(CONDUCTOR, PARTITIONS, Random(1))), think_s=0.0))
    rest = Rest(ConnectAnswer(201, {}, "c0"), tmp_path / "c3")
    assert workload.perform(op, rest, "r") is Outcome.OK
    path = Path(rest.bodies[0]["file"])
    assert path.read_text() == "00000000000\n00000000001\n00000000002\n"
    assert op.value["body"]["file"] == str(path)


# --------------------------------------------------------------------------------------------------
# Records and logs
# --------------------------------------------------------------------------------------------------
VALUE = json.dumps({"source": "3", "number": 17}).encode()


class Reader:
    def poll(self, timeout_s, limit):
        return [Polled("records-0", 5, VALUE, timestamp_ms=9), Polled("records-0", 6, b"noise")]


def test_a_reader_records_what_each_record_says():
    workload, reader = Connect(), Connect().roles()[-1]
    op = Operation.of(4, 0, next(workload.operations(reader, PARTITIONS, Random(1))))
    assert workload.perform(op, Reader(), "r") is Outcome.OK
    ((kind, partition, (first, strange)),) = op.value
    assert (kind, partition) == ("entries", "records-0")
    assert first == [5, 9, None, None, None, "record", "3", 17]
    assert strange[5:] == ["strange", "Expecting value: line 1 column 1 (char 0); key None, value 'noise'", -1]


def log_record(topic, key, value):
    place = {"partition": f"{topic}-0", "offset": 0, "timestamp_ms": 0, "producer_id": 1, "producer_epoch": 0}
    return LogRecord(**place, transactional=True, kind="record", key=key, value=value)


CONFIGS, OFFSETS, STATES = "fp-connect-configs", "fp-connect-offsets", "__transaction_state"


def state(name, state, timeout=10000):
    return struct.pack(">hh", 0, len(name)) + name.encode(), struct.pack(">hqhib", 1, 40, 5, timeout, state)


@pytest.mark.parametrize(
    ("record", "entry"),
    [
        (("records", b"3", VALUE), LogEntry("record", "3", 17)),
        ((OFFSETS, b'["source",{"source":"3"}]', b'{"number":17}'), LogEntry("offset", "3", 17)),
        ((OFFSETS, b'["source",{"source":"3"}]', None), LogEntry("offset", "3", -1)),
        (("records-source-offsets", b'["source",{"source":"3"}]', b'{"number":17}'), LogEntry("offset", "3", 17)),
        ((CONFIGS, b"connector-source", b'{"properties":{}}'), LogEntry("connector", "source", 0)),
        ((CONFIGS, b"connector-source", None), LogEntry("connector", "source", -1)),
        ((CONFIGS, b"commit-source", b'{"tasks":3}'), LogEntry("generation", "source", 3)),
        ((CONFIGS, b"tasks-fencing-source", b'{"task-count":2}'), LogEntry("task-count", "source", 2)),
        ((CONFIGS, b"task-source-1", b'{"properties":{}}'), LogEntry("task", "source-1", 0)),
        ((CONFIGS, b"session-key", b"{}"), LogEntry("other", "session-key", -1)),
        ((STATES, *state("fp-connect-source-0", 0)), LogEntry("initialised", "fp-connect-source-0", 10000, (40, 5))),
        ((STATES, *state("connect-cluster-fp-connect", 4)), LogEntry("transaction", "connect-cluster-fp-connect", 4, (40, 5))),
        ((STATES, *state("somebody", 4)), None),
        ((STATES, b"\x00\x00\x00\x01x", None), None),
    ],
)
def test_a_record_of_each_topic_is_understood(record, entry):
    assert Connect().entry(log_record(*record), "fp-") == entry


def test_a_record_without_the_place_that_was_named_shows_how_it_begins():
    entry = Connect().entry(log_record("records", b"1", b"17"), "fp-")
    assert entry == LogEntry("strange", "there is no /source; key '1', value '17'", -1)


def test_stored_offsets_may_be_those_of_the_next_record():
    workload = Connect(source_by="", position_by="regex ^line (\\d+)$", offset_position="/position", next_offset=True)
    assert workload.entry(log_record("records", None, b"line 17"), "fp-") == LogEntry("record", "", 17)
    stored = log_record(OFFSETS, b'["source",{"filename":"f"}]', b'{"position":18}')
    assert workload.entry(stored, "fp-") == LogEntry("offset", "", 17)
    in_bytes = Connect(source_by="", offset_position="/position", next_offset=True, offset_unit=9)
    assert in_bytes.entry(stored, "fp-") == LogEntry("offset", "", 1)


def test_the_logs_are_those_of_this_run():
    assert {"records", "fp-records", CONFIGS, OFFSETS, STATES} <= set(Connect().logs("fp-"))


def test_an_altered_offset_is_named_with_its_connect_cluster():
    workload = Connect(connect_clusters=2)
    stored = {"partition": {"source": "3"}, "offset": {"number": 100}}
    assert workload.moved(stored, 1, "fp-records2")[1] == ["2/3", 101]
    assert workload.moved(stored, 1, "fp-records")[1] == ["3", 101]


def test_a_conductor_of_a_workload_that_is_over_restarts_and_changes_nothing():
    """A task that a fault has made fail is restarted all the same: else its sources would stand still for ever."""
    plans = Connect(changes=("tasks",), change_every_s=1).operations(CONDUCTOR, PARTITIONS, Random(1))
    planned, requests = next(plans), []
    for number in range(12):
        op = Operation.of(3, number, planned)
        op.outcome, op.closing = Outcome.OK, number > 0
        tasks = [{"state": "FAILED" if number == 5 else "RUNNING"}]
        op.value["answer"] = {"connector": {"state": "RUNNING"}, "tasks": tasks}
        requests.append((planned.request["method"], planned.request["path"].rpartition("/")[2]))
        planned = plans.send(op)
    assert {request for request in requests if request[0] != "GET"} == {
        ("PUT", "config"),
        ("POST", "restart?includeTasks=true&onlyFailed=true"),
    }
    assert sum(request[0] == "PUT" for request in requests) == 1


def test_of_a_validation_only_what_is_wrong_is_recorded():
    assert without_definitions(INVALID)["configs"] == [{"value": {"name": "host", "errors": ["nobody there"]}}]
    assert without_definitions("an error page") == "an error page"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{service.postgres.host}", "10.73.100.1"),
        (
            "jdbc:postgresql://{service.postgres}/shop?port={service.postgres.port}",
            "jdbc:postgresql://10.73.100.1:5432/shop?port=5432",
        ),
        ("${file:{service.x", "${file:{service.x"),
    ],
)
def test_a_configuration_names_the_addresses_of_declared_services(text, filled):
    workload = Connect(config={"where": text, "fast": True})
    op = Operation.of(3, 0, replace(next(workload.operations(CONDUCTOR, PARTITIONS, Random(1))), think_s=0.0))
    rest = Rest(ConnectAnswer(201, {}, "c0"))
    rest.services = {"postgres": "10.73.100.1:5432"}
    assert workload.perform(op, rest, "r") is Outcome.OK
    assert rest.bodies[0]["where"] == op.value["body"]["where"] == filled


def test_a_service_that_nobody_declared_ends_the_run():
    workload = Connect(config={"where": "{service.postgre.host}"})
    op = Operation.of(3, 0, replace(next(workload.operations(CONDUCTOR, PARTITIONS, Random(1))), think_s=0.0))
    rest = Rest(ConnectAnswer(201, {}, "c0"))
    rest.services = {"postgres": "10.73.100.1:5432"}
    assert workload.perform(op, rest, "r") is Outcome.FAIL
    assert op.broken.startswith('`config` of the workload: unknown service "postgre"; did you mean "postgres"?')
    rest.services = {}
    workload.perform(op, rest, "r")
    assert "none is declared" in op.broken
