"""The workload `sink`: the writers of `application`, instances whose output is a store, and a reader of that store."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from fencepost.harness.api import ConnectAnswer, Isolation, Operation, Outcome, PlannedOperation, Polled, record_id
from fencepost.harness.perform.plan_roles import launch_of, roles_of
from fencepost.workloads.sink import Sink

LISTED = {"command": "true", "listing": "cat items"}


def instance(workload):
    return next(role for role in workload.roles() if role.name == "instance")


def test_without_options_the_sink_is_the_one_to_sqlite_that_comes_along():
    program = instance(Sink()).program
    assert program.command[1].endswith("/examples/sinks/sqlite_sink.py")
    assert program.store.items[-2:] == ("store.db", "SELECT input FROM items ORDER BY rowid")
    assert program.store.positions[-2] == "store.db"


def test_there_is_no_output_topic_and_the_store_has_a_reader_after_the_final_ones():
    workload = Sink(**LISTED, input_partitions=2)
    assert {name: spec.partitions for name, spec in workload.topics().items()} == {"in": 2}
    *others, last = roles_of(workload)
    assert (last.name, last.isolation, last.program) == ("final", Isolation.COMMITTED, workload.program)
    assert [role.program for role in others if role.name == "final"] == [None, None]


def test_a_listing_is_a_command_or_a_query():
    assert instance(Sink(**LISTED)).program.store.items == ("cat", "items")
    asked = instance(Sink(command="true", listing="SELECT x FROM y", database="postgresql:///db?host=/s")).program.store
    assert (asked.items[0], *asked.items[-2:]) == ("psql", "SELECT x FROM y", "postgresql:///db?host=/s")
    assert asked.positions == ()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"command": "true"}, "listing: a command"),
        ({**LISTED, "database": "mysql:x"}, "database: sqlite:FILE"),
        ({**LISTED, "database": "sqlite:x", "listing": ("a", "b")}, "listing: with `database` a query"),
        ({**LISTED, "names_input_by": "header x"}, "names_input_by: json POINTER"),
        ({**LISTED, "names_input_by": "key"}, "names_input_by: json POINTER"),
        ({**LISTED, "content": "header x", "value": "{input}"}, "content: json POINTER"),
        ({**LISTED, "content": "value"}, "content: with `value`"),
        ({**LISTED, "content": "regex (", "value": "{input}"}, "is no regular expression"),
        ({**LISTED, "input_topic": "store"}, "input_topic: another name"),
        ({**LISTED, "items_per_input": (2, 1)}, "items_per_input: "),
        ({**LISTED, "listing": "{pyhton} x"}, "listing: unknown placeholder"),
        ({**LISTED, "listing": "cat 'x"}, "listing: "),
    ],
)
def test_what_cannot_be_judged_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        Sink(**options)


def test_writers_fill_the_input():
    workload = Sink(**LISTED)
    planned = islice(workload.operations(workload.roles()[0], ["in-0", "in-1"], Random(1)), 20)
    assert {mop[1] for operation in planned for mop in operation.mops if mop[0] == "send"} == {"in-0", "in-1"}


def test_the_reader_of_the_store_is_no_instance(tmp_path):
    workload = Sink(**LISTED)
    plan = {"topics": {"in": {}}, "prefix": "", "bootstrap": "h:1"}
    *_, last = roles_of(workload)
    assert launch_of(plan, instance(workload), 2, tmp_path).environment["FENCEPOST_STORE"] == str(tmp_path / "data" / "store")
    assert launch_of(plan, last, 9, tmp_path) is None


FILE_SINK = {
    "connector": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "listing": "cat x",
    "config": {"file": "{store}/x"},
    "instances": 2,
}


def test_a_sink_connector_is_judged_as_a_program_of_its_own_group():
    workers = [role for role in Sink(**FILE_SINK).roles() if role.name == "instance"]
    assert [role.runs is role.connect for role in workers] == [True, True]
    assert workers[0].program.group == "connect-source"
    assert [role.name for role in Sink(**FILE_SINK).roles()] == [
        "writer",
        "writer",
        "instance",
        "instance",
        "conductor",
        "reader",
    ]


class Rest:
    directory, bootstrap, second, config = Path("/run/data/c4"), "h:1", "h:2", {}

    def ask(self, method, path, body=None):
        self.config.update(body)
        return ConnectAnswer(201, {}, "c3")


def test_a_connector_finds_the_store_and_the_input():
    workload, client = Sink(**FILE_SINK), Rest()
    conductor = next(role for role in workload.roles() if role.name == "conductor")
    planned = next(workload.operations(conductor, ["in-0"], Random(1)))
    assert workload.perform(Operation.of(4, 0, planned), client, "r") is Outcome.OK
    assert (client.config["topics"], client.config["file"], client.config["tasks.max"]) == ("in", "/run/data/store/x", "1")
    assert "exactly.once.support" not in client.config


@pytest.mark.parametrize("options", [{"command": "true"}, {"spares": 1}, {"image": "x"}])
def test_a_connector_is_in_the_place_of_a_command(options):
    with pytest.raises(ValueError, match="connector: "):
        Sink(**{**FILE_SINK, **options})


@pytest.mark.parametrize("options", [{"upgrades": ("4.4.0",)}, {"plugins": ("a.jar",)}, {"config": {"tasks.max": 2}}])
def test_what_is_of_a_connector_is_refused_without_one(options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))}: is of a `connector`"):
        Sink(**options)


def test_an_image_runs_what_it_runs_by_itself():
    sink = Sink(image="my-sink:1", database="sqlite:store.db", listing="SELECT input FROM items")
    assert (sink.program.image, sink.program.command) == ("my-sink:1", ())
    with pytest.raises(ValueError, match="listing: "):
        Sink(image="my-sink:1")


ORDERS = {"value": '{"id": "{input}", "of": "{input}"}', "names_input_by": "json /id"}


@pytest.mark.parametrize(
    ("line", "content", "known"),
    [
        ('{"id": "r|1|0|0", "of": "r|1|0|0"}', "value", True),
        ('{"id": "r|1|0|0", "of": "r|1|0|1"}', "value", False),
        ('{"id": "r|1|0|0"}', "", True),
    ],
)
def test_an_item_has_the_content_of_its_input_where_the_test_says_so(line, content, known):
    class Client:
        def poll(self, timeout_s, limit):
            return [Polled("store-0", 4, line.encode())]

    op = Operation.of(4, 0, PlannedOperation(f="poll", mops=(("poll",),), limit=1))
    assert Sink(**LISTED, **ORDERS, content=content).perform(op, Client(), "r") is Outcome.OK
    assert op.value[1][1] == {"store-0": [[4, record_id(1, 0, 0) if known else -1]]}
