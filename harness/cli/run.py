"""`fencepost run`: one test, from the options of the command line."""

from __future__ import annotations

import inspect
import shlex
from functools import cache
from typing import Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.cli.console import EXIT_CODES, Conf, Json, KnownFile, Master, Results, given_options, print_json
from fencepost.harness.cli.run_options import KEY_OPTIONS

EXAMPLES = """\b
Examples:
  fencepost run --time 30
  fencepost run -w idempotent -n kill,target=leader -n pause,every_s=[2,4] --time 120
  fencepost run --set writers=12 -n cut-clients --producer socket.timeout.ms=1000 --expect torn-transaction
  fencepost run -n kill -n isolate -n cut-clients,lane=b --lane 'main,order=in turn' --budget nodes=1
  fencepost run -n none --kafka 3.9.1 --topic min.insync.replicas=1 --contract acks=all"""


def register(app: typer.Typer) -> None:
    """Add the command to the application: its options are those of the test's keys, and those of every command that judges."""
    run.__signature__ = _signature()  # type: ignore[attr-defined]
    app.command(help=f"Perform one test and judge it.\n\n{EXIT_CODES}", epilog=EXAMPLES)(run)


def run(
    context: typer.Context,
    *,
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
    known: KnownFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look whether the test has a mistake, and list it.")] = False,
    **given: Any,
) -> None:
    from fencepost.harness.campaign.campaign import PlannedRun, draw_seed
    from fencepost.harness.cli.arguments import from_options
    from fencepost.harness.cli.planned_runs import perform, print_outcome, print_plan, summary
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.planning.plan import vain

    test = from_options(**given)
    if mistakes := vain(test):
        raise CampaignError(mistakes)
    seed = draw_seed() if test.seed is None else test.seed
    plan = [PlannedRun(test, seed, _repeating(context, seed))]
    if dry_run:
        print_plan(plan, json_)
        return
    performed = perform(plan, results, master, spark_conf, to_stderr=json_, known=known_of(known))
    if json_:
        print_json(performed[0].verdict if performed and performed[0].verdict else summary(performed, plan))
    raise typer.Exit(print_outcome(performed, plan, seed=seed, quiet=json_))


@cache
def _signature() -> inspect.Signature:
    """That of the function, with the keys of a test instead of `given`."""
    context, *others = (
        parameter for parameter in inspect.signature(run, eval_str=True).parameters.values() if parameter.name != "given"
    )
    keys = [key_option.as_parameter() for key_option in KEY_OPTIONS]
    return inspect.Signature([context, *keys, *others])


def _repeating(context: typer.Context, seed: int) -> str:
    """The command that repeats this run: every option that was given, and the seed."""
    return shlex.join(["fencepost", "run", *given_options(context, leave_out=("seed", "dry_run")), "--seed", str(seed)])
