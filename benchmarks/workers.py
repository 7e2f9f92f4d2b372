"""`workers`: does the harness slow its workers down? Rounds of them and of bare loops take turns on one cluster.

No faults, no readers, no polls, no pauses, no aborts; a fixed number of records per operation. Only the harness differs: a
generator, records that describe themselves, delivery reports, and a line on disk before and after each operation.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import goal, ratios, show, spread
from fencepost.clusters.local import Local
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.planning.plan import make_plan

WRITERS, RECORDS = 8, 4
COMMON = {"writers": WRITERS, "readers": 0, "uncommitted_readers": 0}
BURSTS = Choice(kind="idempotent", options={**COMMON, "burst": [RECORDS, RECORDS]})
TRANSACTIONS = {**COMMON, "sends": [RECORDS, RECORDS], "poll_share": 0.0, "abort_share": 0.0, "think_ms": 0.0}
TESTS = (
    Test(name="transactions", workload=Choice(kind="transactions", options=TRANSACTIONS)),
    # How many records share a request is a race between the sender and librdkafka's thread. These two cases take it out: a batch
    # leaves when it is full, and every burst is whole batches, of which several are in flight.
    Test(name="idempotent-unbatched", workload=BURSTS, producer={"batch.num.messages": 1}),
    Test(name="idempotent-pairs", workload=BURSTS, producer={"batch.num.messages": 2, "linger.ms": 100}),
    Test(name="idempotent", workload=BURSTS),
)
ROWS = (
    ("operations per second", "per_s", 1),
    ("median latency, ms", "latency_ms", 2),
    ("from the operation's begin to its first record, us", "lead_us", 0),
    ("between two operations, us", "between_us", 0),
    ("processor time of the clients per operation, us", "cpu_us", 0),
    ("processor time of the brokers per operation, us", "broker_us", 0),
)
AT_LEAST, AT_MOST = 0.90, 0.02


def measure(*, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-workers-") as temporary:
        folder = Path(temporary)
        for test in TESTS:
            (folder / f"{test.name}.json").write_text(json.dumps(make_plan(test, run=test.name, seed=1, command="")))
        inside = [sys.executable, "-m", "benchmarks.inside_workers", temporary, str(rounds), str(seconds)]
        root = Path(__file__).parents[1]
        subprocess.run(Local().sandbox(inside), check=True, cwd=root, stdin=subprocess.DEVNULL)
        by_test = json.loads((folder / "figures.json").read_text())
    for test in TESTS:
        _report(test.name, by_test[test.name], rounds, seconds)


def _report(name: str, by_arm: Mapping[str, Any], rounds: int, seconds: float) -> None:
    ours, bare = by_arm["fencepost"], by_arm["bare loop"]
    rows, per_row = [], {}
    for label, field, digits in ROWS:
        a, b = [figures[field] for figures in ours], [figures[field] for figures in bare]
        per_row[field] = ratios(a, b)
        rows.append((label, spread(a, digits), spread(b, digits), spread(per_row[field], 3)))
    recording, everything = ([pair[at] for pair in by_arm["recording"]] for at in (0, 1))
    rows.append(("recording alone, in a loop, us", spread(recording), "", ""))
    rows.append(("all that is ours, in a loop, us", spread(everything), "", ""))
    title = f"{name}: {WRITERS} writers, {RECORDS} records an operation, {rounds} rounds of {seconds:g} s, taking turns"
    show(title, ("", "fencepost", "bare loop", "fencepost / bare loop"), rows)
    latency_us = median(figures["latency_ms"] for figures in bare) * 1e3
    rate, alone = median(per_row["per_s"]), median(recording)
    # all from an operation's end to the next one's first record: recording, and also generator, reports, the client's begin
    in_place = median(figures["between_us"] + figures["lead_us"] for figures in ours)
    goal(f"at least {AT_LEAST:.0%} of the bare loop's operations per second: {rate:.1%}", rate >= AT_LEAST)
    shares = f"{alone / latency_us:.2%} in a loop, less than {in_place / latency_us:.2%} in place"
    goal(f"at most {AT_MOST:.0%} of its median latency spent in recording: {shares}", in_place / latency_us <= AT_MOST)
