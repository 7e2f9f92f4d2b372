"""A program of somebody's own as the pipeline: what its input says, and what its output is taken for."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import asdict
from random import Random

import pytest

from fencepost.harness.api import OWN_GROUP, Operation, Outcome, PlannedOperation, Polled, record_id
from fencepost.harness.system.package_files import EXAMPLES
from fencepost.workloads.application import Application
from fencepost.workloads.support import record_format
from fencepost.workloads.support.inputs_and_outputs import HEADER, name_of
from fencepost.workloads.testing import FakeClient

RUN = "ab12"
POLL = PlannedOperation(f="poll", mops=(("poll",),))
V = record_id(1, 0, 0)


class Recorder(FakeClient):
    """Keeps whole records."""

    def send(self, record, done):
        self.__dict__.setdefault("records", []).append(record)
        super().send(record, done)


def written(**options):
    """The first record of a writer."""
    workload, client = Application(command="true", input_abort_share=0.0, **options), Recorder()
    role = next(role for role in workload.roles() if role.name == "writer")
    planned = next(workload.operations(role, ["in-0", "in-1", "out-0"], Random(1)))
    assert {mop[1] for mop in planned.mops} <= {"in-0", "in-1"}
    assert workload.perform(Operation.of(1, 0, planned), client, RUN) is Outcome.OK
    return client.records[0]


def polled(record, **options):
    """The micro-operations of a poll that returned this record."""
    op = Operation.of(5, 0, POLL)
    assert Application(command="true", **options).perform(op, FakeClient(polled=[[record]]), RUN) is Outcome.OK
    return [[mop[0], mop[1], *mop[3:]] for mop in op.value]


def test_an_input_has_its_name_in_key_header_and_value():
    record = written()
    name = name_of(RUN, V)
    assert (record.key.decode(), dict(record.headers), record.value.decode().startswith(name)) == (
        name,
        {HEADER: name.encode()},
        True,
    )
    assert polled(Polled("in-0", 3, record.value, record.key, record.headers)) == [["poll", {"in-0": [[3, V]]}]]


def test_a_value_of_ones_own_form_has_the_name_in_it_and_must_come_back_unchanged():
    options = {"value": '{"order": "{input}"}', "names_input_by": "json /order"}
    record = written(**options)
    assert record.value.decode() == '{"order": "ab12|1|0|0"}'
    assert polled(Polled("in-0", 3, record.value, record.key, record.headers), **options) == [["poll", {"in-0": [[3, V]]}]]
    damaged = Polled("in-0", 3, record.value + b" ", record.key, record.headers)
    (mop,) = polled(damaged, **options)
    assert mop[1] == {"in-0": [[3, -1]]}
    assert mop[2][0]["why"] == "content is not what was sent"


def test_keys_are_shared_where_their_order_is_promised():
    record = written(ordered_by_key=True)
    assert record.key.decode() == f"in-{record.partition}/1/0"


@pytest.mark.parametrize(
    ("how", "output"),
    [
        (f"header {HEADER}", {"headers": [(HEADER, b"ab12|1|0|0")]}),
        ("key", {"key": b"ab12|1|0|0"}),
        ("value", {"value": b"ab12|1|0|0|in-0|commit|...|0123abcd"}),
        ("json /orders/0/a~1b", {"value": b'{"orders": [{"a/b": "ab12|1|0|0"}]}'}),
        ("regex id=([^;]+);", {"value": b"x;id=ab12|1|0|0;y"}),
        (r"regex ab12\|\d+\|\d+\|\d+", {"value": b"of ab12|1|0|0, in capitals"}),
    ],
)
def test_an_output_names_its_input(how, output):
    record = Polled("out-2", 7, **{"value": b"", **output})
    assert polled(record, names_input_by=how) == [["poll", {}], ["output", {"out-2": [[7, V]]}]]


@pytest.mark.parametrize(
    ("how", "output"),
    [
        ("header count", {"headers": [("count", b"12")]}),
        ("json /state/count", {"value": b'{"state": {"count": 12}}'}),
        ("regex count=([0-9]+)", {"value": b"count=12;"}),
    ],
)
def test_an_output_says_what_was_counted(how, output):
    record = Polled("out-2", 7, **{"value": b"", **output})
    silent = Polled("out-2", 8, b"")
    assert polled(record, counts=how)[2] == ["count", {"out-2": [[7, 12]]}]
    assert polled(silent, counts=how)[2] in (["count", {}], ["count", {"out-2": []}])


@pytest.mark.parametrize(
    ("how", "value", "why"),
    [
        (f"header {HEADER}", b"ab12|1|0|0", f"it names no input (it has no header {HEADER})"),
        ("json /id", b"not json", "it names no input (Expecting value: line 1 column 1 (char 0))"),
        ("json /id", b'{"id": 7}', "it names no input (/id is no text)"),
        ("value", b"zz99|1|0|0", "it names no input of this run: 'zz99|1|0|0'"),
        ("value", b"ab12|1|0|99999", "it names no input of this run: 'ab12|1|0|99999'"),
        ("value", b"\xff", "it names no input ('utf-8' codec can't decode byte 0xff in position 0: invalid start byte)"),
    ],
)
def test_an_output_that_names_none_is_recorded_with_the_reason(how, value, why):
    (_, mop) = polled(Polled("out-2", 7, value), names_input_by=how)
    assert mop[1] == {"out-2": [[7, -1]]}
    assert mop[2][0]["why"] == why


def digest(value):
    return hashlib.sha256(value).hexdigest()


@pytest.mark.parametrize(
    ("how", "output"),
    [
        ("value", lambda value: {"value": value}),
        ("value", lambda value: {"value": digest(value).upper().encode()}),
        ("header sha", lambda value: {"headers": [(HEADER, b"ab12|1|0|0"), ("sha", digest(value).encode())]}),
        ("json /of", lambda value: {"value": json.dumps({"of": digest(value)}).encode()}),
        ("regex of=(.*)$", lambda value: {"value": b"of=" + value}),
    ],
)
@pytest.mark.parametrize("options", [{}, {"value": "order {input}!"}], ids=["our text", "one's own"])
def test_an_output_has_the_content_of_its_input_or_its_digest(how, output, options):
    value = written(**options).value
    record = {"headers": [(HEADER, b"ab12|1|0|0")], "value": b"", **output(value)}
    changed = {"headers": [(HEADER, b"ab12|1|0|0")], "value": b"", **output(value[:-1])}
    assert polled(Polled("out-2", 7, **record), content=how, **options)[1] == ["output", {"out-2": [[7, V]]}]
    mop = polled(Polled("out-2", 7, **changed), content=how, **options)[1]
    assert mop[1] == {"out-2": [[7, -1]]}
    assert mop[2][0]["why"].startswith("its content is not that of the input that it names: ")


@pytest.mark.parametrize("output", [{}, {"headers": [("sha", b"")]}, {"headers": [("sha", b"\xff")]}])
def test_an_output_without_any_content_is_not_that_of_its_input(output):
    headers = [(HEADER, b"ab12|1|0|0"), *output.get("headers", ())]
    mop = polled(Polled("out-2", 7, b"", headers=headers), content="header sha")[1]
    assert mop[1] == {"out-2": [[7, -1]]}
    assert "content" in mop[2][0]["why"]


def test_content_is_compared_on_a_shared_cluster_and_without_the_option_it_is_not():
    record = written()
    own = record_format.encode(RUN, 1, 0, 0, "fp-ab12-in-3", "commit", 100)
    headers = [(HEADER, b"ab12|1|0|0")]
    assert polled(Polled("fp-ab12-out-2", 7, own, headers=headers), content="value")[1][1] == {"fp-ab12-out-2": [[7, V]]}
    assert polled(Polled("out-2", 7, record.value + b"!", headers=headers))[1][1] == {"out-2": [[7, V]]}


def test_topics_of_a_shared_cluster_begin_with_the_runs_prefix():
    assert polled(Polled("fp-ab12-out-2", 7, b"ab12|1|0|0"), names_input_by="value")[1][0] == "output"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"command": " "}, "command: the words of a command"),
        ({"outputs_per_input": (2, 1)}, "outputs_per_input: (fewest, most)"),
        ({"outputs_per_input": (0, 0)}, "outputs_per_input: (fewest, most)"),
        ({"names_input_by": "json id"}, '"id" is no JSON pointer'),
        ({"names_input_by": "regex ("}, '"(" is no regular expression'),
        ({"names_input_by": "regex (a)(b)"}, "has 2 groups"),
        ({"names_input_by": "headers"}, '"headers" is no way to name an input'),
        ({"names_input_by": "key", "ordered_by_key": True}, "names_input_by: not the key"),
        ({"names_input_by": "key", "counts": "json /n"}, "names_input_by: not the key"),
        ({"counts": "key"}, '"key" is no way to say a number'),
        ({"content": "key"}, '"key" is no place of content; there are: header NAME, json POINTER, regex PATTERN, value'),
        ({"content": "digest"}, '"digest" is no place of content; there are: header NAME'),
        ({"counts": "json n"}, '"n" is no JSON pointer'),
        ({"counts": "json /n", "outputs_per_input": (0, 1)}, "counts: an output for each input"),
        ({"stores": ("s",), "group": ""}, "stores: the group is not known"),
        ({"stored": "count json /n", "ordered_by_key": True}, "stored: says what the values of a store hold"),
        ({"stored": "count json /n", "stores": ("s",)}, "stored: for inputs that share keys"),
        ({"stored": "sum json /n", "stores": ("s",), "ordered_by_key": True}, '"sum json /n" does not say'),
        ({"value": "always the same"}, "value: a text with {input} in it"),
        ({"output_topic": "in"}, "output_topic: not the end of"),
        ({"input_topic": "my-out"}, "output_topic: not the end of"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        Application(**{"command": "true", **options})


def test_a_command_is_split_as_a_shell_does():
    (role,) = {role for role in Application(command="run 'a b' --c").roles() if role.program}
    assert role.program.command == ("run", "a b", "--c")


def test_a_program_may_be_an_image_with_or_without_a_command():
    (program,) = {role.program for role in Application(image="mine:1").roles() if role.program}
    assert (program.image, program.command) == ("mine:1", ())
    with pytest.raises(ValueError, match="command"):
        Application()


def test_spares_come_last_so_that_the_others_keep_their_slots():
    roles = Application(command="true", instances=2, readers=1, spares=2).roles()
    assert [(role.name, role.spare) for role in roles[-5:]] == [
        *[("instance", False)] * 2,
        ("reader", False),
        *[("instance", True)] * 2,
    ]


@pytest.mark.parametrize(
    ("stores", "group", "topics"),
    [
        (("a", "b"), OWN_GROUP, ("fp-r-application-a-changelog", "fp-r-application-b-changelog")),
        (("a", "b=mine"), "g", ("g-a-changelog", "mine")),
        ((), "g", ()),
    ],
)
def test_changelogs_are_named_as_streams_does_it_or_by_the_user(stores, group, topics):
    assert Application(command="program", stores=stores, group=group).logs("fp-r-") == topics


def test_a_command_has_the_real_paths_from_the_beginning():
    """So a plan, which is made of the options, has the words that were executed."""
    workload = Application(command="env A=1 {python} {examples}/applications/streams.py count")
    words = ("env", "A=1", sys.executable, str(EXAMPLES / "applications" / "streams.py"), "count")
    assert asdict(workload)["command"] == words
    assert next(role.program for role in workload.roles() if role.program).command == words
    assert asdict(Application(command="sh -c 'x $A'"))["command"] == "sh -c 'x $A'"


def test_a_placeholder_that_stands_for_nothing_is_refused():
    with pytest.raises(ValueError, match=r'command: unknown placeholder "\{pyhton\}"; did you mean "\{python\}"'):
        Application(command="{pyhton} x.py")
    with pytest.raises(ValueError, match=r"command: \{python\} stands for a path of this machine, which an image does not have"):
        Application(command="{python} x.py", image="mine:1")
