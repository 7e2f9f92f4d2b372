"""The damages: what is planted, what must be found, and what accompanies it by nature. A row per damage.

The damage of a new anomaly stands beside its check (`Check.damages`), or here: a function (see `records`) and a row.
"""

from __future__ import annotations

from fencepost.checkers.model.planted import COMMITTED_TXN, PlantedDamage
from fencepost.checkers.selfcheck import application_damages as programs
from fencepost.checkers.selfcheck import connect_damages as connect
from fencepost.checkers.selfcheck import cycle_damages as cycles
from fencepost.checkers.selfcheck import pipeline_damages as pipelines
from fencepost.checkers.selfcheck import read_damages as reads
from fencepost.checkers.selfcheck import record_damages as records
from fencepost.checkers.selfcheck import source_damages as sources
from fencepost.checkers.selfcheck import transaction_damages as transactions
from fencepost.checkers.selfcheck.schedules import Schedule, schedules
from fencepost.checkers.verdict.rules import ALLOWED, RULES

PIPELINES = ("reprocessed", "unprocessed", "torn-offset", "dirty-offset", "offset-regression", "stale-offset", "double-ownership")
PROGRAMS = ("phantom-output", "output-order", "torn-state", "store-divergence", "wrong-state", "vanished-output")
NO_PROGRAM = "needs the output of a program of somebody's own"
NO_STORE = "needs the state store of a program, and its changelog"
NO_LEADER = "needs the configuration topic and the coordinators' log of a source connector"
NO_CONNECTOR = "needs records of a source connector that were read back"
SKIPS = ("poll-skip", "int-poll-skip")
FUTURE = ("dirty-read", "lso-overrun", "G1c-wr", "G1c-wr-process", "G1c-wr-realtime")
STEPS = (*SKIPS, "nonmonotonic-poll", "int-nonmonotonic-poll")


def _schedule(name: str, plant: Schedule) -> PlantedDamage:
    """A schedule is named after what it shows. A cycle of reads is one of reads and writes as well."""
    lawful = {"int-send-skip": ("G0",), "lso-overrun": SKIPS}
    accompanying = (name.replace("G1c-wr", "G1c"),) if name.startswith("G1c-wr") else lawful.get(name, ())
    cycle = name if name.startswith("G") and RULES[name][-1].judged == ALLOWED else ""
    return PlantedDamage(name, plant, (name,), accompanying, "needs nothing", cycle)


DAMAGES = (
    PlantedDamage("lose", records.lose, ("lost-write",), SKIPS, "needs a committed operation, all of it read back"),
    PlantedDamage(
        "hide",
        records.hide,
        ("lost-write",),
        (*SKIPS, "stale-read"),
        "needs a committed operation and a read_committed final read",
    ),
    PlantedDamage("tear", transactions.tear, ("torn-transaction", "lost-write"), SKIPS, f"{COMMITTED_TXN}, from two partitions"),
    PlantedDamage(
        "deny",
        transactions.deny,
        ("false-ack",),
        (),
        f"{COMMITTED_TXN} and at read_uncommitted by a final reader",
    ),
    PlantedDamage(
        "truncate",
        records.truncate,
        ("lost-write",),
        (*SKIPS, "torn-transaction"),
        "needs a committed record and a read_committed final read",
    ),
    PlantedDamage("repeat", records.repeat, ("duplicate",), STEPS, "needs a committed record that was read"),
    PlantedDamage(
        "swap",
        records.swap_inside,
        ("order-inversion", "int-nonmonotonic-send"),
        (),
        "needs an operation with two records in one partition that were read only after it had been decided",
    ),
    PlantedDamage(
        "swap operations",
        records.swap_across,
        ("order-inversion", "nonmonotonic-send"),
        ("real-time-inversion",),
        "needs two operations of one process in one partition that were read only after both had been decided",
    ),
    PlantedDamage(
        "show aborted",
        transactions.show_aborted,
        ("aborted-read",),
        (),
        "needs a failed transaction whose records were all acknowledged, between records that were read",
    ),
    PlantedDamage(
        "show half",
        transactions.show_half,
        ("torn-transaction", "aborted-read"),
        (),
        "needs a failed transaction of several records, all acknowledged, between records that a final reader read",
    ),
    PlantedDamage(
        "read early",
        transactions.read_early,
        ("dirty-read",),
        ("lso-overrun",),
        "needs a committed record, read at read_committed",
    ),
    PlantedDamage(
        "read own",
        transactions.read_own,
        ("dirty-read",),
        (*STEPS, "lso-overrun"),
        f"{COMMITTED_TXN}, by a process that reads read_committed",
    ),
    PlantedDamage(
        "move",
        records.move,
        ("inconsistent-offset",),
        (*STEPS, "duplicate"),
        "needs two committed records in one partition that were read",
    ),
    PlantedDamage(
        "swallow",
        records.swallow,
        ("swallowed-write",),
        (),
        "needs two committed records of one process in one partition that were read",
    ),
    PlantedDamage("invade", records.invade, ("phantom",), (), "needs a read"),
    PlantedDamage(
        "garble",
        records.garble,
        ("phantom", "lost-write"),
        (*STEPS, "torn-transaction", "inconsistent-offset"),
        "needs a committed record that was read",
    ),
    PlantedDamage(
        "misplace",
        records.misplace,
        ("wrong-partition",),
        SKIPS,
        "needs a committed record and two partitions that were read",
    ),
    PlantedDamage(
        "leave out",
        pipelines.leave_out,
        ("unprocessed",),
        (),
        "needs an input record below the group's offset at the end, with an output that was read back",
    ),
    PlantedDamage(
        "process twice",
        pipelines.process_twice,
        ("reprocessed",),
        (),
        "needs two committed transactions with outputs that were read back",
    ),
    PlantedDamage(
        "lose offset",
        pipelines.lose_offset,
        ("torn-offset",),
        (),
        "needs a partition of which the group's offset at the end is one that a transaction committed",
    ),
    PlantedDamage(
        "move back",
        pipelines.move_back,
        ("offset-regression",),
        ("torn-offset",),
        "needs two committed transactions with offsets of one partition, one after the other",
    ),
    PlantedDamage(
        "tell old",
        pipelines.tell_old,
        ("stale-offset",),
        ("torn-offset",),
        "needs a member that asked for the group's offset after a transaction had committed one",
    ),
    PlantedDamage(
        "tell early",
        pipelines.tell_early,
        ("dirty-offset",),
        (),
        "needs a member that asked for the group's offset while a transaction with one of the partition was not decided",
    ),
    PlantedDamage(
        "share",
        pipelines.share,
        ("double-ownership",),
        ("offset-regression", "torn-offset"),
        "needs two commits of one member in one partition, no rebalance between them, and another member's commit in between",
    ),
    PlantedDamage(
        "drop output",
        programs.drop_output,
        ("unprocessed",),
        ("output-order", "torn-state"),
        f"{NO_PROGRAM} below its group's offset",
    ),
    PlantedDamage("repeat output", programs.repeat_output, ("reprocessed",), (), NO_PROGRAM),
    PlantedDamage("invent output", programs.invent_output, ("phantom-output",), (), NO_PROGRAM),
    PlantedDamage("swap outputs", programs.swap_outputs, ("output-order",), (), f"{NO_PROGRAM} that promises their order"),
    PlantedDamage("count more", programs.count_more, ("torn-state",), (), f"{NO_PROGRAM} that says what it has counted"),
    PlantedDamage("alter store", programs.alter_store, ("store-divergence",), (), NO_STORE),
    PlantedDamage("count in changelog", programs.count_in_changelog, ("wrong-state",), (), f"{NO_STORE} that counts inputs"),
    PlantedDamage("show output", programs.show_output, ("vanished-output",), (), f"{NO_PROGRAM}, and a reader before the end"),
    PlantedDamage("drop position", sources.drop_position, ("source-loss",), (), f"{NO_CONNECTOR}, three of one source"),
    PlantedDamage("repeat position", sources.repeat_position, ("source-duplicate",), (), NO_CONNECTOR),
    PlantedDamage("tear offset", sources.tear_offset, ("source-offset-torn",), (), f"{NO_CONNECTOR}, with offsets"),
    PlantedDamage(
        "lower offset",
        sources.lower_offset,
        ("source-offset-regression",),
        ("source-offset-torn",),
        f"{NO_CONNECTOR}, and two offsets of one source",
    ),
    PlantedDamage(
        "drop task counts", connect.drop_counts, ("unfenced-start",), ("connect-promise",), f"{NO_LEADER}, and a start of a task"
    ),
    PlantedDamage("write outside", connect.write_outside, ("config-topic-writer",), (), NO_LEADER),
    PlantedDamage(
        "haunt",
        connect.haunt,
        ("zombie-task",),
        ("source-offset-torn",),
        f"{NO_LEADER}, and a task that another instance has followed",
    ),
    PlantedDamage("rename id", connect.rename_id, ("connect-promise",), ("zombie-task",), NO_LEADER),
    PlantedDamage("stall", records.stall, ("lso-stall",), (), "needs a look at last stable offsets (a `settle` operation)"),
    PlantedDamage("skip", reads.skip_between, ("poll-skip",), ("stale-read",), "needs two polls of one partition by one reader"),
    PlantedDamage(
        "skip inside",
        reads.skip_inside,
        ("int-poll-skip",),
        ("stale-read",),
        "needs a poll of three records of one partition",
    ),
    PlantedDamage("step back", reads.step_back, ("nonmonotonic-poll",), (), "needs two polls of one partition by one reader"),
    PlantedDamage(
        "repeat inside",
        reads.repeat_inside,
        ("int-nonmonotonic-poll",),
        (),
        "needs a poll of three records of one partition",
    ),
    PlantedDamage(
        "forget",
        reads.forget,
        ("stale-read",),
        (*SKIPS, "lost-write", "torn-transaction"),
        "needs a read_committed final read, and a reader before it",
    ),
    PlantedDamage(
        "invert",
        reads.invert,
        ("real-time-inversion",),
        (),
        "needs neighbours of two producers, one acknowledged before the other was sent, read after both were decided",
    ),
    PlantedDamage(
        "read each other",
        cycles.read_each_other,
        ("G1c-wr",),
        (*FUTURE, *STEPS),
        "needs two committed transactions at one time whose processes read at read_committed",
    ),
    PlantedDamage(
        "read own future",
        cycles.read_own_future,
        ("G1c-wr-process",),
        (*FUTURE, *STEPS),
        "needs two committed transactions of one process that reads at read_committed",
    ),
    PlantedDamage(
        "read future",
        cycles.read_future,
        ("G1c-wr-realtime",),
        (*FUTURE, *STEPS),
        "needs two committed transactions one after the other whose processes read at read_committed",
    ),
    PlantedDamage(
        "poll successor",
        pipelines.poll_successor,
        ("G1c-wr",),
        (*FUTURE, *STEPS),
        "needs two committed transactions of a pipeline, the second of which goes on at the group's offset of the first",
    ),
    *(_schedule(name, plant) for name, plant in schedules()),
)
WITHOUT: dict[str, str] = {  # installed checks that no damage expects, each with the reason
    "epoch-regression": "it is judged by what the brokers' logs hold (stored.parquet), and damages are planted in histories",
}
