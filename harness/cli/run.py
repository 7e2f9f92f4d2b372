"""`fencepost run`: one test, from the options of the command line."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from harness.cli.console import EXIT_CODES, Checkers, Conf, Json, Master, Results, Texts, pairs, print_json

EXAMPLES = """\b
Examples:
  fencepost run --time 30
  fencepost run -w idempotent -n kill,target=leader -n pause,every_s=[2,4] --time 120
  fencepost run --set writers=12 -n cut-clients --producer socket.timeout.ms=1000 --expect torn-transaction
  fencepost run -n kill -n isolate -n cut-clients,lane=b --lane 'main,order=in turn' --budget nodes=1
  fencepost run -n none --kafka 3.9.1 --topic min.insync.replicas=1 --contract acks=all"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(help=f"Perform one test and judge it.\n\n{EXIT_CODES}", epilog=EXAMPLES)(run)


def run(
    context: typer.Context,
    workload: Annotated[str, typer.Option("--workload", "-w", help="What clients do (see: fencepost plugins).")] = "transactions",
    set_: Annotated[Texts, pairs("--set", "An option of the workload.")] = None,
    nemesis: Annotated[
        Texts,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="KIND[,KEY=VALUE...]",
            help="A fault; `none` for none. Default: kill, pause, isolate, cut-clients, mixed; on an external cluster none.",
        ),
    ] = None,
    lane: Annotated[
        Texts,
        typer.Option(
            "--lane", metavar="NAME,KEY=VALUE...", help="How a lane's faults follow each other (order, busy_s, quiet_s)."
        ),
    ] = None,
    budget: Annotated[Texts, pairs("--budget", "How much all faults may hurt at a time (nodes, keep_quorum).")] = None,
    time: Annotated[float, typer.Option("--time", "-t", help="How long the workload runs, in seconds.")] = 60.0,
    rate: Annotated[float, typer.Option("--rate", help="Operations a second over all writers; 0: as fast as it goes.")] = 0.0,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeats the draws of an earlier run. Default: drawn.")] = None,
    kafka: Annotated[str | None, typer.Option("--kafka", metavar="VERSION", help="Kafka's version.")] = None,
    brokers: Annotated[int | None, typer.Option("--brokers", help="How many brokers.")] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="Where brokers live.")] = "auto",
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster.")] = None,
    broker_setting: Annotated[Texts, pairs("--broker-setting", "A setting of every broker.")] = None,
    client: Annotated[str, typer.Option("--client", help="Which client library is used.")] = "librdkafka",
    producer: Annotated[Texts, pairs("--producer", "A setting of the producers.")] = None,
    consumer: Annotated[Texts, pairs("--consumer", "A setting of the consumers.")] = None,
    topic: Annotated[Texts, pairs("--topic", "A setting of the topics.")] = None,
    contract: Annotated[Texts, pairs("--contract", "Judge by this instead of what the settings promise.")] = None,
    expect: Annotated[
        Texts, typer.Option("--expect", metavar="NAME", help="An anomaly that must be found. Default: valid.")
    ] = None,
    checker: Checkers = None,
    name: Annotated[str | None, typer.Option("--name", help="The test's name. Default: the workload's.")] = None,
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
) -> None:
    from harness.campaign.campaign import PlannedRun, draw_seed
    from harness.cli.arguments import from_options
    from harness.cli.planned_runs import perform, print_outcome, summary

    test = from_options(
        name=name,
        workload=workload,
        workload_options=set_ or (),
        nemesis=nemesis,
        lanes=lane or (),
        budget=budget or (),
        cluster=cluster,
        cluster_options=cluster_set or (),
        kafka=kafka,
        brokers=brokers,
        broker_settings=broker_setting or (),
        client=client,
        producer=producer or (),
        consumer=consumer or (),
        topic=topic or (),
        contract=contract or (),
        expect=expect or (),
        checkers=checker or (),
        time_s=time,
        rate=rate,
    )
    drawn = draw_seed() if seed is None else seed
    plan = [PlannedRun(test, drawn, _repeating(context, drawn))]
    found = perform(plan, results, master, spark_conf, to_stderr=json_)
    if json_:
        print_json(found[0].verdict if found and found[0].verdict else summary(found))
    raise typer.Exit(print_outcome(found, plan, seed=drawn, quiet=json_))


def _repeating(context: typer.Context, seed: int) -> str:
    """The command that repeats this run: every option that is not at its default, and the seed."""
    words = ["fencepost", "run"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("seed", "results", "json_", "help", "spark_conf") or value in (parameter.default, None, (), []):
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0], str(one)]
    return shlex.join([*words, "--seed", str(seed)])
