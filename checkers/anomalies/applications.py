"""A program of somebody's own between an input and an output topic, judged from outside (KIP-98, KIP-447).

`reprocessed` and `unprocessed` are those of pipelines (`checkers.anomalies.pipelines`), counted here by the outputs that name an
input; the checks below are of programs only. The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import WORK
from fencepost.checkers.contract.common_rules import (
    COMPACTED,
    G1,
    HIDDEN_IN_PART,
    RETAINED,
    TRUNCATED,
    UNLESS_PRODUCER,
    UNLESS_PROGRAM,
    cut_off,
)
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, FINAL, FINAL_COMMITTED, OUTCOMES, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import COMMITTED, INFO, NONE
from fencepost.checkers.pipeline.applications import (
    Application,
    has_application,
    input_places,
    outputs_of,
    stage_that_reads,
    stages_of,
    stretches,
)
from fencepost.checkers.pipeline.chains import rows_of
from fencepost.checkers.pipeline.operator_aborts import torn_state_beyond
from fencepost.checkers.pipeline.output_producers import words_for
from fencepost.checkers.selfcheck.application_damages import COUNT_MORE, INVENT_OUTPUT, SHOW_OUTPUT, SWAP_OUTPUTS
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import PROGRAM
from fencepost.harness.api.roles import STORE_OFFSETS
from fencepost.harness.api.words import enumeration, form, plural

BETWEEN = -(1 << 40)  # causes below it: outputs of which the topic before has no record
NO_PROGRAM = "no output of a program of somebody's own was read"
NOT_READ_BACK = "not every partition of the output was read back by a complete final read"
MAY_DROP = "the program may drop inputs (`outputs_per_input`)"
NOT_DONE = "the program had not caught up, or its group has committed no offset"
UNCOUNTED = "the program has no state of which its outputs tell (`counts`)"
UNNAMED = "an output names no input that is visible, or says no count"
MAY_HAVE_BEEN_FIRST = tuple(
    Rule(INAPPLICABLE, f"{why}: of an input whose outputs may be repeated the first one may be gone", when)
    for why, when in (
        ("the topic is compacted", {"application": "at-least-once", "compaction": "!false"}),
        ("the topic deletes old records", {"application": "at-least-once", "retention": "!none"}),
    )
)
UNORDERED = "the program does not promise the order of inputs with one key (`ordered_by_key`)"


# --------------------------------------------------------------------------------------------------
# How many outputs an input has: for `reprocessed` and `unprocessed`
# --------------------------------------------------------------------------------------------------
def of_all_stages(run: RunView, check: Callable[[Application], CheckResult]) -> CheckResult:
    """What a check says of each program in a row."""
    results = [check(stage) for stage in stages_of(run)]
    rows = [result.rows for result in results if len(result.rows)]
    lacking = next((result.lacking for result in results if result.lacking), "")
    return CheckResult(sum(result.compared for result in results), join_rows(*rows) if rows else {}, lacking=lacking)


def _times(inputs: pd.DataFrame) -> Any:
    """How often each input is there: more than once only where the program before has repeated it."""
    return inputs["v"].map(inputs["v"].value_counts()).to_numpy()


def too_many(program: Application) -> CheckResult:
    """Inputs with more outputs than declared, and these outputs: those that were read, be the final read complete or not."""
    compared = int(program.inputs["v"].isin(program.final.loc[program.final["v"] != NONE, "v"]).sum())
    count = program.shown.loc[program.shown["v"] != NONE, "v"].value_counts()
    over = program.inputs["v"].map(count).fillna(0).to_numpy() > program.most * _times(program.inputs)
    return CheckResult(compared, _rows(program, over, "sent"))


def explain_too_many(finding: Finding, text: FindingText) -> str:
    inputs, outputs = finding.records("sent"), finding.records("read")
    program = stage_that_reads(text.run, inputs[0].partition)
    what, verb = ("Input record", " has") if len(inputs) == 1 else (f"{len(inputs)} input records,", ", have")
    each = "" if len(inputs) == 1 else " each"
    first = min(inputs, key=lambda row: (row.partition, row.offset))
    made = words_for(text.run, sorted((row for row in outputs if row.v == first.v), key=lambda row: (row.partition, row.offset)))
    return (
        f"{what} {text.places(inputs)}{verb} more outputs than the {program.most} that the program declares{each}: "
        f"{program.there} has {len(outputs)}, {text.places(outputs)}."
        + (f" Those of {first.place} were made: {made}." if made else "")
    )


def too_few(program: Application) -> CheckResult:
    """Inputs with fewer outputs than declared, among those that the program must have processed, and these outputs."""
    claimed = program.claimed
    lacking = MAY_DROP if not program.fewest else "" if program.output_read_back else NOT_READ_BACK
    if lacking or claimed.empty:
        return CheckResult(0, lacking=lacking or NOT_DONE)
    count = program.final["v"].value_counts()
    inputs = program.inputs
    few = inputs["v"].map(count).fillna(0) < inputs["v"].map(program.demanded)
    return CheckResult(len(claimed), _rows(program, few.to_numpy() & inputs.index.isin(claimed.index), "missing"))


def explain_too_few(finding: Finding, text: FindingText) -> str:
    inputs, outputs = finding.records("missing"), finding.records("read")
    program = stage_that_reads(text.run, inputs[0].partition)
    group = program.outputs.declared["group"]
    what, verb = ("Input record", " lies") if len(inputs) == 1 else (f"{len(inputs)} input records,", ", lie")
    where = f"{what} {text.places(inputs)}"
    whose = group if program.store and group == STORE_OFFSETS else f"the group {group}"
    where += f"{verb} below the offset that {whose} committed" if group else ""
    demanded = int(program.demanded.reindex(list({row.v for row in inputs}), fill_value=program.fewest).sum())
    amount = f"only {len(outputs)} of {demanded} outputs" if outputs else "no output"
    link = ", but" if group else ": the program had caught up, but"
    return f"{where}{link} {program.there} has {amount} of {form(len(inputs), 'it', 'them')}."


def _rows(program: Application, which: Bools, role: str) -> dict[str, Any]:
    """Some inputs and all of their outputs, one cause for each stretch of neighbours; of one that is there again, its first."""
    if not which.any():
        return {}
    drain, when = program.outputs.drain
    inputs = program.inputs[which]
    stages = max(1, len(outputs_of(program.run).stages))
    cause = -2 - (stages * stretches(which, program.inputs["partition"]) + program.stage)
    inputs = inputs.assign(cause=cause, op=drain, time=when)
    inputs["cause"] = inputs.groupby("v")["cause"].transform("first")
    if role == "sent":
        writers = program.senders(inputs["v"].to_numpy()).drop_duplicates("v").set_index("v")["op"]
        inputs = inputs.assign(op=writers.reindex(inputs["v"]).fillna(drain).astype(np.int64).to_numpy())
    return join_rows(rows_of(inputs, role), _outputs_of(program, inputs))


def _outputs_of(program: Application, inputs: pd.DataFrame) -> dict[str, Any]:
    """The outputs of some inputs in the final reads, with the causes of these."""
    outputs = program.shown[program.shown["v"].isin(inputs["v"])]
    causes = inputs.drop_duplicates("v").set_index("v")["cause"].reindex(outputs["v"]).to_numpy()
    return rows_of(outputs.assign(cause=causes, time=outputs["ended"]), "read")


# --------------------------------------------------------------------------------------------------
# Outputs by themselves
# --------------------------------------------------------------------------------------------------
def _explain_phantom(finding: Finding, text: FindingText) -> str:
    rows, sent = finding.records("read"), finding.records("sent")
    what = f"An output, {rows[0].place}," if len(rows) == 1 else f"{len(rows)} outputs, {text.places(rows)},"
    who = f"{what} which {text.names(rows)} read,"
    verb = form(len(rows), "names", "name")
    if sent and sent[0].offset is not None and sent[0].offset != NONE:
        stage = next(stage for stage in stages_of(text.run) if rows[0].partition in stage.written)
        before = ", ".join(sorted(stage.outputs.declared["inputs"]))
        return (
            f"{who} {verb} {text.places(sent)}, of which {before} has no output of the program before: it is not visible, so the "
            "program read what was aborted, or what was lost later."
        )
    if sent:
        writers = enumeration(
            [f"{text.name(op, capital=False)}, which {text.outcome(op)}" for op in dict.fromkeys(row.op for row in sent)]
        )
        return f"{who} {verb} input of {writers}: it is not visible{_how_read(sent, text)}."
    why = text.unreadable(rows[0]) if rows[0].v < 0 else "nobody in this run sent what it names"
    return f"{who} {verb} no input of this run: {why}."


def _how_read(inputs: Sequence[FindingRecord], text: FindingText) -> str:
    """Words for what the program has read, where it made outputs of inputs that are not visible; the rest of a sentence."""
    if all(text.aborted(row.op) for row in inputs):
        return ", so the program read what was aborted"
    if all(text.transactional(row.op) for row in inputs):
        return ", so the program read what was aborted, or what was lost later"
    return ""


@run_check(
    "phantom-output",
    occasions=(Occasion.TRANSACTION_ABORTED,),
    promise=PROGRAM,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_PROGRAM,
        *cut_off("an input that was read and processed may be gone"),
        Rule(FORBIDDEN, "a program that reads at read_committed makes outputs of committed inputs only (KIP-98)"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, *ALL_READS}, ANYBODY, {SENDS, *FINAL}, "a line that is missing may have sent or shown the input"
    ),
    damages=(INVENT_OUTPUT,),
    across=True,
    gather=input_places,
    brief=has_application,
    explain=_explain_phantom,
    needs=NO_PROGRAM,
)
def phantom_output(run: RunView) -> CheckResult:
    """An output of a program of somebody's own that names no input of this run, or one that was aborted.

    Aborted: its transaction surely was, or nobody knows and the complete final read of a topic that deletes nothing does not have
    it. Of a program behind another one: the input's record that the program before made of it is not in the complete final read
    of the topic between the two.

    compared: outputs that read_committed readers got. One cause: the input's transaction; of outputs that name no input, or one
    that the program before has no output of, the stretch of neighbours in the partition.

    Example::

        ms   process  operation        in-0           out-0                 outcome
        0-1  1        txn              send a@5       -                     committed
        2-3  1        txn              send b@7       -                     aborted
        4-5  3        final read       read a@5       output a@0, b@1, ?@2
        6-7  harness  drain 1 1        8              -

    Found: read b@1, for the program processed an aborted record, and read out-0@2, which names none.

    Slow twin: `phantom_outputs` in tests/support/application_reference.py.
    """
    if not has_application(run):
        return CheckResult(0)
    program = run.shared(Application)
    read = program.outputs.records.sort_values(["partition", "offset", "op"]).drop_duplicates(["partition", "offset", "v"])
    unseen = ~read["v"].isin(program.inputs["v"]).to_numpy()
    senders = program.senders(read.loc[unseen, "v"].to_numpy()).drop_duplicates("v").set_index("v")
    bad = unseen & ~read["v"].isin(_innocent(program, senders)).to_numpy()
    cause = senders["op"].reindex(read["v"], fill_value=NONE).to_numpy(copy=True)
    unnamed = bad & (cause == NONE)
    cause[unnamed] = -2 - stretches(unnamed, read["partition"])
    read = read.assign(cause=cause, time=read["ended"])
    phantoms = read[bad]
    sent = senders[senders.index.isin(phantoms["v"])].reset_index()
    between = [rows for stage in stages_of(run)[1:] if (rows := _without_record_between(program, stage, read))]
    if phantoms.empty:
        return CheckResult(len(read), join_rows(*between) if between else {})
    when = run.overview.time[run.overview.at(sent["op"].to_numpy())]
    sent = sent.assign(cause=sent["op"], offset=NONE, time=when)
    return CheckResult(len(read), join_rows(rows_of(phantoms, "read"), rows_of(sent, "sent"), *between))


def _without_record_between(first: Application, stage: Application, read: pd.DataFrame) -> dict[str, Any]:
    """Outputs of a program behind another one that name visible inputs of the first one, of which the topic between the two has
    no record, and these inputs.
    """
    before = set(stage.outputs.declared["inputs"])
    read_finally = stage.outputs.records[stage.outputs.records["partition"].isin(before)]
    if stage.run.deletes or stage.read_back(before) != before or (read_finally["v"] == NONE).any():
        return {}
    inputs = first.inputs.drop_duplicates("v").set_index("v")
    of_stage = read["partition"].isin(stage.written) & read["v"].isin(inputs.index) & ~read["v"].isin(stage.inputs["v"])
    which = of_stage.to_numpy()
    if not which.any():
        return {}
    stages = len(stages_of(stage.run))
    outputs = read[which].assign(cause=BETWEEN - (stages * stretches(which, read["partition"]) + stage.stage))
    causes = outputs.drop_duplicates("v").set_index("v")[["cause", "time"]]
    known = inputs.loc[inputs.index.isin(causes.index)]
    writers = first.senders(known.index.to_numpy()).drop_duplicates("v").set_index("v")["op"]
    named = known.join(causes).assign(op=writers.reindex(known.index)).dropna(subset=["op"]).astype({"op": np.int64})
    return join_rows(rows_of(outputs, "read"), rows_of(named.reset_index(), "sent"))


def _innocent(program: Application, senders: pd.DataFrame) -> Any:
    """Inputs that are not visible without the program's doing: lost ones, and those of which nobody knows."""
    status = program.run.status(senders["op"].to_numpy())
    there = set() if program.run.deletes else program.read_back(senders["partition"])
    unknown = (status == INFO) & ~senders["partition"].isin(there).to_numpy()
    return senders.index[(status == COMMITTED) | unknown]


def _explain_order(finding: Finding, text: FindingText) -> str:
    early, late = finding.records("read")[0], finding.records("read")[1:]
    return (
        f"The output {early.place} is of a later input than what lies above it with the same key, {text.places(late)}: "
        f"{text.process(early.op)} read them in another order than that of their inputs."
    )


@run_check(
    "output-order",
    occasions=WORK,
    promise=PROGRAM,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_PROGRAM,
        *MAY_HAVE_BEEN_FIRST,
        *cut_off("what is processed again then lies after what was kept"),
        Rule(FORBIDDEN, "the program promises the order of inputs with one key, in each partition of its output"),
    ),
    evidence=Needs({SENDS, *ALL_READS}, ANYBODY, {FINAL_COMMITTED}, "a line that is missing may have shown an earlier output"),
    damages=(SWAP_OUTPUTS,),
    across=True,
    gather=input_places,
    brief=has_application,
    explain=_explain_order,
    needs=f"{NO_PROGRAM}, or no key has two in one partition",
)
def output_order(run: RunView) -> CheckResult:
    """Outputs of inputs with one key lie in another order than their inputs, where a program promises that order.

    Inputs with one key lie in one partition. Of each input its first output in a partition counts, as the repetition of one is
    `reprocessed`.

    compared: outputs after another one with the same key in their partition. One cause: the output that lies too early.

    Example::

        ms   process  operation            in-0                   out-0                 outcome
        0-1  1        txn                  send a@5, b@6, c@7     -                     committed
        2-3  3        final read           read a@5, b@6, c@7     output b@0, a@1, c@2
        4-5  harness  drain 1 1 ordered    8                      -

    Found: read b@0 and read a@1.

    Slow twin: `output_orders` in tests/support/application_reference.py.
    """
    if not has_application(run):
        return CheckResult(0)
    program = run.shared(Application)
    if not program.ordered:
        return CheckResult(0, lacking=UNORDERED)
    compared, inverted, keyed = 0, [], [_keyed(stage) for stage in stages_of(run)]
    for stage, outputs in zip(stages_of(run), keyed, strict=True):
        whole = stage.read_back(stage.written)
        for (partition, *_), some in outputs.groupby(["partition", "key", "of"], sort=True):
            compared += (len(some) - 1) * (partition in whole)
            inverted += list(_inverted(some))
    rows = [rows_of(outputs.assign(cause=-2 - number), "read") for number, outputs in enumerate(inverted)]
    return CheckResult(compared, join_rows(*rows) if rows else {}, bound="; ".join(filter(None, map(_scattered, keyed))))


def _scattered(outputs: pd.DataFrame) -> str:
    """The keys whose outputs no reader gets in one order, in words; empty when there are none."""
    partitions = outputs.groupby("key")["partition"].nunique()
    count = int((partitions > 1).sum())
    if not count:
        return ""
    keys = f"{count:,} of {plural(len(partitions), 'key')} {form(count, 'has', 'have')} outputs in several partitions"
    return f"{keys}, between which nothing is ordered"


def _keyed(program: Application) -> pd.DataFrame:
    """The first output of each input in each partition, as far as it was read from its start, with the number of its `key`.

    `input` and `of` are the offset and the partition at which the program read the input first. Of one that the program before
    has put in several partitions nobody knows from which an output is: it is left out.
    """
    inputs, first = program.inputs, program.run.shared(Application)
    inputs = inputs[(inputs.groupby("v")["partition"].transform("nunique") == 1).to_numpy(dtype=np.bool_)]
    keys = pd.Series(first.keys(first.inputs).to_numpy(), index=first.inputs["v"].to_numpy())
    known = pd.DataFrame({"v": inputs["v"], "input": inputs["offset"], "of": inputs["partition"]}).drop_duplicates("v")
    known = known[known["v"].isin(keys.index)].assign(key=lambda some: keys.reindex(some["v"]).to_numpy())
    return program.shown.drop_duplicates(["partition", "v"]).merge(known, on="v").sort_values(["partition", "offset"])


def _inverted(some: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Outputs of one key in one partition, in the order of offsets: each that lies too early, with what comes too late."""
    values = some["input"].to_numpy()
    highest = np.maximum.accumulate(values)
    late = highest > values
    for top in np.unique(highest[late]):
        early = some[values == top]
        rows = pd.concat([early, some[late & (highest == top)]])
        yield rows.assign(time=rows["ended"].max())


def _explain_vanished(finding: Finding, text: FindingText) -> str:
    rows = finding.rows
    what = f"the output {rows[0].place}" if len(rows) == 1 else f"{len(rows)} outputs, {text.places(rows)},"
    names = text.names(rows)
    return f"{names[:1].upper()}{names[1:]} got {what} at read_committed, which {text.how_missing(rows[0].partition, len(rows))}."


@run_check(
    "vanished-output",
    occasions=(Occasion.WORK_ABORTED, Occasion.LEADER_MOVED, Occasion.SERVER_STRUCK),
    promise=PROGRAM,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_PROGRAM,
        COMPACTED,
        RETAINED,
        *TRUNCATED,
        Rule(FORBIDDEN, G1),
    ),
    evidence=Needs(
        {POLLS, FINAL_COMMITTED},
        ANYBODY,
        {FINAL_COMMITTED},
        "the final read may have returned in a missing line what seems to be gone",
    ),
    damages=(SHOW_OUTPUT,),
    explain=_explain_vanished,
    needs=f"{NO_PROGRAM}, or {NOT_READ_BACK}",
)
def vanished_output(run: RunView) -> CheckResult:
    """A read_committed reader got an output of a program that the complete read_committed final read does not have there.

    Whoever reads downstream then has acted on what was aborted later, or lost.

    compared: outputs that readers got before the final read. One cause: the stretch of neighbours in the partition.

    Example::

        ms   process  operation        in-0           out-0              outcome
        0-1  1        txn              send a@5, b@6  -                  committed
        2-3  3        poll             -              output a@0, b@1
        4-5  4        final read       read a@5, b@6  output a@0, b@3
        6-7  harness  drain 1 1        7              -

    Found: read b@1.

    Slow twin: `vanished_outputs` in tests/support/application_reference.py.
    """
    if not has_application(run):
        return CheckResult(0)
    program = run.shared(Application)
    records = program.outputs.records
    got = records[~records["final"] & records["partition"].isin(program.read_back(program.written))]
    got = got.sort_values(["partition", "offset", "op"]).drop_duplicates(["partition", "offset", "v"])
    there = pd.MultiIndex.from_frame(program.final[["partition", "offset", "v"]])
    gone = ~pd.MultiIndex.from_frame(got[["partition", "offset", "v"]]).isin(there)
    if not gone.any():
        return CheckResult(len(got))
    vanished = got[gone].assign(cause=-2 - stretches(gone, got["partition"]))
    return CheckResult(len(got), rows_of(vanished.assign(time=vanished["ended"]), "read"))


def _explain_state(finding: Finding, text: FindingText) -> str:
    counts = text.run.shared(Application).count_at
    (first, before), *rest = sorted((counts[row.partition, row.offset], row.place) for row in finding.records("read"))
    if not rest:
        counted = f"The output {before} says that {first} inputs of its key were counted"
        return f"{counted}, and no committed output says fewer: the state has inputs whose outputs are not committed."
    ((count, place),) = rest
    more = count - first - 1
    what = (
        f"the state has {more} more, whose output is not committed, or one twice" if more > 0 else "the state had lost an input"
    )
    return f"The output {place} says that {count} inputs of its key were counted, and the one before, {before}, {first}: {what}."


@run_check(
    "torn-state",
    occasions=WORK,
    promise=PROGRAM,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_PROGRAM,
        COMPACTED,
        RETAINED,
        *cut_off("outputs may be gone, and what the program's state has of them not"),
        HIDDEN_IN_PART,
        Rule(
            FORBIDDEN,
            "what a program keeps of an input is committed with its output or not at all (KIP-129)",
            {"application": "!at-least-once"},
        ),
        Rule(ALLOWED, "a program that promises its outputs at least once may have an input in its state twice"),
    ),
    evidence=Needs(
        {SENDS, *ALL_READS}, ANYBODY, {SENDS, FINAL_COMMITTED}, "a line that is missing may have shown the output in between"
    ),
    damages=(COUNT_MORE,),
    across=True,
    gather=input_places,
    brief=has_application,
    beyond_aborts=torn_state_beyond,
    explain=_explain_state,
    needs=f"{NO_PROGRAM}, or {UNCOUNTED}",
)
def torn_state(run: RunView) -> CheckResult:
    """The state of a program has effects of inputs without committed outputs, or lacks effects of inputs that have them.

    Each output says how many inputs with the key of its input the program had counted (`counts`). The committed outputs of a
    key say 1, 2, 3, ..., each once. Of each input its first output counts.

    compared: committed outputs of visible inputs. One cause: two outputs that follow each other by what they say, with another
    difference than one; or the first of a key, which does not say 1.

    Example::

        ms   process  operation            in-0                   out-0                       outcome
        0-1  1        txn                  send a@5, b@6, c@7     -                           committed
        2-3  3        final read           read a@5, b@6, c@7     output a@0=1, b@1=2, c@4=4
        4-5  harness  drain 1 1 counts     8                      -

    Found: read b@1 and read c@4, for the state had counted one more in between.

    Slow twin: `torn_states` in tests/support/application_reference.py.
    """
    if not has_application(run):
        return CheckResult(0)
    program = run.shared(Application)
    if not program.counts:
        return CheckResult(0, lacking=UNCOUNTED)
    if not program.output_read_back:
        return CheckResult(0, lacking=NOT_READ_BACK)
    counted = _counted(program)
    if counted is None:
        return CheckResult(0, lacking=UNNAMED)
    breaks = []
    for _, some in counted.groupby("key", sort=True):
        breaks += list(_breaks(some))
    rows = [rows_of(outputs.assign(cause=-2 - number), "read") for number, outputs in enumerate(breaks)]
    return CheckResult(len(counted), join_rows(*rows) if rows else {})


def _counted(program: Application) -> pd.DataFrame | None:
    """The first output of each input with its `count` and `key`, by these; None where an output tells no input or no count."""
    inputs = program.inputs
    known = pd.DataFrame({"v": inputs["v"], "key": program.keys(inputs)})
    counted = program.final.merge(known, on="v", how="left").merge(program.counted, on=["partition", "offset"], how="left")
    if counted[["key", "count"]].isna().any(axis=None):
        return None
    return counted.drop_duplicates("v").sort_values(["key", "count", "partition", "offset"])


def _breaks(some: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Outputs of one key, by their counts, that follow each other with another difference than one."""
    counts = some["count"].to_numpy()
    for at in np.flatnonzero(np.diff(counts, prepend=0) != 1):
        rows = some.iloc[max(0, at - 1) : at + 1]
        yield rows.assign(time=rows["ended"].max())
