"""The workload `sink`: the writers of `application`, instances whose output is a store, and a reader of that store."""

from itertools import islice
from random import Random

import pytest

from fencepost.harness.api import Isolation
from fencepost.harness.perform.worker import roles_of
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
