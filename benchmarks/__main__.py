"""`python -m benchmarks [NAME...]`: measure by name; without a name, list what can be measured."""

from __future__ import annotations

import argparse
import importlib

MEASUREMENTS = {
    "workers": "operations per second of fencepost's workers against a bare confluent-kafka loop, and the cost of recording",
    "drivers": "transactions per second of librdkafka in a driver's process against the same in the workers' own",
    "start": "from the start of a run to its cluster and its first operation",
    "checker": "the whole cold command `fencepost check` on 10,000 to 1,000,000 generated transactions, with its peak memory",
    "cycles": "the growth of `fencepost check` with the length of a ring of operations, and with the processes of a tangle",
    "shapes": "the same for many partitions, one partition, many processes and wide transactions, beside a plain history",
    "jepsen": "adopting 1,000,000 generated transactions as Jepsen's EDN, with and without the reader of plain lines",
    "proxy": "the fault proxy without rules against none: records, transactions, 500 connections",
    "fetches": "each Fetch recorded by an idle proxy, against those with records alone, and against no proxy",
    "verdict": "from the end of the final read to verdict.json: 10,000 generated transactions, and a real short run",
}


def main() -> None:
    listing = "\n".join(f"  {name:10}{what}" for name, what in MEASUREMENTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog=listing, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], help="what to measure, in this order")
    parser.add_argument("--rounds", type=int, default=4, help="repetitions of each (default 4)")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="length of a round of `workers`, of a real run of `verdict` (default 15)"
    )
    chosen = parser.parse_args()
    if not chosen.names:
        parser.print_help()
    for name in chosen.names:
        importlib.import_module(f"benchmarks.{name}").measure(rounds=chosen.rounds, seconds=chosen.seconds)


if __name__ == "__main__":
    main()
