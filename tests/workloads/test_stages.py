"""The workload `stages`: programs in a row, each between its own two topics."""

from itertools import islice
from random import Random

import pytest

from fencepost.harness.api import Operation, PlannedOperation, Polled
from fencepost.workloads.stages import Stages

TWO = ("first --x 'a b'", "second")


def test_the_output_of_a_program_is_the_input_of_the_next_one():
    workload = Stages(commands=(*TWO, "third"), instances=2)
    assert list(workload.topics()) == ["in", "stage-1", "stage-2", "out"]
    programs = [role.program for role in workload.roles() if role.program]
    assert [(program.input, program.output, program.fed) for program in programs[::2]] == [
        ("in", "stage-1", True),
        ("stage-1", "stage-2", False),
        ("stage-2", "out", False),
    ]
    assert programs[::2] == programs[1::2]
    assert len({program.group for program in programs}) == 3
    assert programs[0].command == ("first", "--x", "a b")


def test_a_plan_has_the_words_that_were_executed():
    workload = Stages(commands=("{python} x", "second"))
    assert Stages(commands=workload.commands) == workload
    assert "{python}" not in workload.commands[0]


@pytest.mark.parametrize("commands", [(), ("one",)])
def test_one_program_alone_is_an_application(commands):
    with pytest.raises(ValueError, match="commands: two programs or more"):
        Stages(commands=commands)


def test_writers_fill_the_first_topic_alone():
    workload = Stages(commands=TWO)
    partitions = [f"{topic}-{number}" for topic in workload.topics() for number in range(2)]
    planned = islice(workload.operations(workload.roles()[0], partitions, Random(1)), 30)
    assert {mop[1] for operation in planned for mop in operation.mops if mop[0] == "send"} <= {"in-0", "in-1"}


class Client:
    def poll(self, *_):
        header = (("fencepost-input", b"r|0|1|0"),)
        return [Polled(name, 3, b"", None, header) for name in ("stage-1-0", "out-1", "x-stage-1-0")]


def test_what_a_reader_gets_of_every_stage_is_an_output():
    op = Operation.of(9, 0, PlannedOperation(f="poll", mops=(("poll",),)))
    Stages(commands=TWO).perform(op, Client(), "r")
    assert [mop[0] for mop in op.value] == ["poll", "output"]
    assert set(op.value[1][1]) == {"stage-1-0", "out-1", "x-stage-1-0"}
