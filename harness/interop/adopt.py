"""Other people's histories, made ours: Jepsen's Kafka histories (EDN, JSON), and our own formats lying anywhere.

    detect -> blocks -> lines -> parsed blocks (in parallel) -> joining -> identities -> history.parquet

docs/foreign-histories.md says what becomes of every key, value, operation and fault.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.words import and_more, plural
from fencepost.harness.history.merge import FAULTS_SCHEMA
from fencepost.harness.history.run_directory import shortened, write_damage, write_plan
from fencepost.harness.interop.adopted_plan import contract, foreign_plan
from fencepost.harness.interop.blocks import BLOCK, blocks
from fencepost.harness.interop.chaos.adopting import adopt_log
from fencepost.harness.interop.detect import UNDERSTOOD, Format, detect, located
from fencepost.harness.interop.jepsen.joining import Joining
from fencepost.harness.interop.jepsen.lines import UNRELIABLE
from fencepost.harness.interop.jepsen.parsed_blocks import Moment, ParsedBlock, parse_block
from fencepost.harness.interop.jepsen.planned_sends import WORKERS_LINE
from fencepost.harness.interop.jepsen.receipts import receipts
from fencepost.harness.interop.jepsen.tables import Assembly
from fencepost.harness.interop.jepsen.text_lines import NO_TIMES
from fencepost.harness.interop.native import copy_parquet, merge_lines
from fencepost.harness.interop.parallel import cores, in_turn
from fencepost.harness.interop.wire.adopting import adopt_wire

__all__ = ["UNDERSTOOD", "Format", "adopt", "detect"]
MOST_DAMAGE = 1000
OWN = {"aborted_polls": "kept"}  # what our consumers do, where Jepsen's go back


def adopt(path: Path, run_dir: Path, overrides: Mapping[str, str] | None = None, block: int = BLOCK) -> list[Gap]:
    """Write the history at `path` into the fresh results directory `run_dir`, ready to be judged, with a plan of what is known.

    overrides: contract keys laid over what is taken for granted. block: bytes that are parsed at a time.
    Returns what could not be read and was left out (in `damage.json` too). Raises HistoryError: no such file, no format that is
    understood, nothing in it.
    """
    path = located(path)
    format_, given = detect(path), dict(overrides or {})
    damage: list[Gap]
    if format_.name == "fencepost-jsonl":
        damage = merge_lines(path, run_dir)
        functions, partitions = _contents(run_dir)
        promised = contract(functions, {**OWN, **given})
    elif format_.name == "fencepost-parquet":
        damage = copy_parquet(path, run_dir)
        functions, partitions = _contents(run_dir)
        if not functions.get("final-read"):  # without a final phase nobody misses what the final readers got
            damage = [gap for gap in damage if Evidence.FINAL_COMMITTED not in gap.evidence]
        promised = contract(functions, {**OWN, **given})
    elif format_.name == "chaos-log":
        damage, workload = adopt_log(path, run_dir)
        functions, partitions = _contents(run_dir)
        promised = contract(functions, {**OWN, **workload.contract, **given})
    elif format_.name == "wire-record":
        damage, said = adopt_wire(path, run_dir)
        functions, partitions = _contents(run_dir)
        promised = contract(functions, {**said, **given})
    else:
        damage, functions, partitions, promised = _adopt_jepsen(path, run_dir, format_, given, block)
    source = {"path": str(path), "format": format_.name, "operations": dict(functions), "partitions": len(partitions)}
    source["receipts"] = _has_receipts(path, run_dir, format_)
    write_plan(run_dir, foreign_plan(run_dir, source, promised, given, partitions))
    if format_.name != "fencepost-jsonl":  # merging has written it
        write_damage(run_dir, damage, ())
    return damage


def _has_receipts(path: Path, run_dir: Path, format_: Format) -> bool:
    """Return whether the history has receipts of faults in our own format: a nemesis' lines tell of no clock and no deletion."""
    if format_.name == "fencepost-jsonl":
        return any((run_dir / RunFile.LINES / name).exists() for name in (RunFile.FAULT_LINES, f"{RunFile.FAULT_LINES}.gz"))
    folder = path if path.is_dir() else path.parent
    return format_.name == "fencepost-parquet" and (folder / RunFile.RECEIPTS).exists()


def _contents(run_dir: Path) -> tuple[Counter[str], list[str]]:
    """The number of operations of each f in a merged history, and the partitions in it."""
    functions: Counter[str] = Counter()
    partitions: set[str] = set()
    for batch in ds.dataset(run_dir / RunFile.HISTORY).to_batches(columns=["f", "mops"]):
        functions.update({row["values"]: row["counts"] for row in pc.value_counts(batch["f"]).to_pylist()})
        partitions.update(pc.unique(batch["mops"].flatten().field("partition")).to_pylist())
    return functions, sorted(partitions)


# --------------------------------------------------------------------------------------------------
# Jepsen's
# --------------------------------------------------------------------------------------------------
def _adopt_jepsen(
    path: Path, run_dir: Path, format_: Format, given: Mapping[str, str], block: int
) -> tuple[list[Gap], Counter[str], list[str], dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix=".adopting-", dir=run_dir) as spill:
        try:
            parsed_blocks = list(_parsed(path, format_, Path(spill), block))
        except (OSError, EOFError) as error:
            raise HistoryError(f"{path}: cannot be read: {error}") from error
        joining = Joining(path.name)
        joining.join(parsed_blocks)
        counted = [part.functions for part in parsed_blocks] + [rows.functions for rows in joining.rows.values()]
        functions = sum(counted, Counter[str]())
        together = any(parsed.together for parsed in parsed_blocks) or any(rows.together for rows in joining.rows.values())
        promised = contract(functions, {"values": "per key", **given}, together)
        assembly = Assembly(parsed_blocks, joining, path.name, promised)
        if not assembly.write(run_dir):
            raise HistoryError(
                f"{path}: {format_.name}, but no Kafka operation in it{_what_else(parsed_blocks)}; understood are {UNDERSTOOD}"
            )
    faults = receipts(seen for parsed in parsed_blocks for seen in parsed.nemesis)
    with replacing(run_dir, RunFile.RECEIPTS) as table:
        pq.write_table(pa.Table.from_pylist(faults, schema=FAULTS_SCHEMA), table)
    damage = (
        [item for parsed in parsed_blocks for item in parsed.damage]
        + joining.damage
        + assembly.damage
        + assembly.renumbered
        + _unknown_functions(path, parsed_blocks)
        + _beginning(path, parsed_blocks)
        + _between(path, parsed_blocks)
        + _backward(path, parsed_blocks)
        + ([Gap(file=path.name, why=NO_TIMES, kind=GapKind.MISSING)] if format_.language == "txt" else [])
    )
    return shortened(sorted(damage, key=lambda item: item.line), MOST_DAMAGE), functions, assembly.partitions, promised


def _parsed(path: Path, format_: Format, spill: Path, size: int) -> Iterator[ParsedBlock]:
    """The parsed blocks of a file, in order; read by several processes when there is enough to parse."""
    work = (
        (block, format_.language, path.name, spill / str(number))
        for number, block in enumerate(blocks(path, format_.array, size))
    )
    if cores() < 2 or path.stat().st_size < 2 * size:
        yield from (parse_block(*arguments) for arguments in work)
        return
    with ProcessPoolExecutor(cores(), mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from in_turn(pool, parse_block, work)


def _beginning(path: Path, parsed_blocks: list[ParsedBlock]) -> list[Gap]:
    """The gap before a history that does not begin with its first operation.

    Its lines may stand in any order, and be counted from 1: a lost first line is missed by the completion that it leaves alone.
    """
    lowest = min((block.lowest for block in parsed_blocks if block.lowest >= 0), default=0)
    begins = min(parsed_blocks[0].begins, lowest)
    why = f"the history begins with operation {begins}; what was sent before it is not known"
    return [Gap(file=path.name, why=why, kind=GapKind.SHORTENED, evidence=(Evidence.SENDS,))] if begins > 1 else []


def _between(path: Path, parsed_blocks: list[ParsedBlock]) -> list[Gap]:
    """Lines that are missing between others: indexes count one line after the other, whoever they are of."""
    numbered, unreadable = [block for block in parsed_blocks if block.numbered], sum(block.unreadable for block in parsed_blocks)
    if not numbered or any(block.unnumbered for block in parsed_blocks):
        why = "lines cannot be read, and without indexes nobody knows how many others are missing there"
        return [Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=WORKERS_LINE)] if unreadable else []
    span = max(block.highest for block in numbered) - min(block.lowest for block in numbered) + 1
    missing = span - sum(block.numbered for block in numbered) - unreadable
    if missing <= 0:
        return []
    why = f"by their indexes {plural(missing, 'line is', 'lines are')} missing between others"
    if twice := sum(block.repeated for block in numbered):  # written over them, perhaps in the middle of lines
        why = f"{why}, and {twice} have the index of another line: nobody knows which are as they were written"
        return [Gap(file=path.name, why=why, kind=GapKind.UNRELIABLE, lines=missing, evidence=WORKERS_LINE)]
    return [Gap(file=path.name, why=why, kind=GapKind.MISSING, lines=missing, evidence=WORKERS_LINE)]


def _backward(path: Path, parsed_blocks: list[ParsedBlock]) -> list[Gap]:
    """Lines that happened, as they say, before the line above of their process: doubled or moved, or a clock was set back."""
    lines: list[int] = []
    last: dict[int, Moment] = {}
    for block in parsed_blocks:
        lines += block.backward
        lines += [moment.line for process, moment in block.first.items() if process in last and moment.is_before(last[process])]
        last |= block.last
    if not lines:
        return []
    more = and_more(len(lines) - 1, ", nor does that of ")
    why = f"its index or time does not follow its process's line before{more}: lines are there twice, or in another order"
    return [Gap(file=path.name, line=min(lines), why=why, kind=GapKind.UNRELIABLE, evidence=WORKERS_LINE)]


def _unknown_functions(path: Path, parsed_blocks: list[ParsedBlock]) -> list[Gap]:
    """The gaps of operations of no known f: they may have moved consumers, and with a value sent or polled what it names."""
    first: dict[str, int] = {}
    for block in parsed_blocks:
        for f, line in block.unknown_functions.items():
            first.setdefault(f, line)
    why = "are not of Kafka's workload; all are left out, and what they did is not known"
    values = set[str]().union(*(block.unknown_values for block in parsed_blocks))
    held = {f: WORKERS_LINE if f in values else (Evidence.POSITIONS,) for f in first}
    kinds = {UNRELIABLE: GapKind.UNRELIABLE}
    return [
        Gap(file=path.name, line=line, why=f"operations `{f}` {why}", kind=kinds.get(f, GapKind.UNREADABLE), evidence=held[f])
        for f, line in first.items()
    ]


def _what_else(parsed_blocks: list[ParsedBlock]) -> str:
    others = sorted({f for block in parsed_blocks for f in block.unknown_functions})
    broken = sum(len(block.damage) for block in parsed_blocks)
    words = [f"only {', '.join(others)}"] if others else []
    if broken:
        first = next(gap.why for block in parsed_blocks for gap in block.damage)
        words.append(f"{plural(broken, 'line is', 'lines are')} not understood, the first: {first}")
    return f" ({'; '.join(words)})" if words else ""
