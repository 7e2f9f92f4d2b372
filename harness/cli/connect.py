"""`fencepost connect`: versions of Kafka Connect in the cache."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.harness.cli.console import Json, print_json, print_line, print_table

connect_app = typer.Typer(
    help="Kafka Connect by version: fetched once, kept for all runs.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(connect_app, name="connect")


@connect_app.command("fetch", epilog="\b\nExample:\n  fencepost connect fetch 4.3.0")
def connect_fetch(version: Annotated[str, typer.Argument(metavar="VERSION")]) -> None:
    """Fetch a version of Kafka Connect into the cache (about 40 MB); one that is damaged is fetched anew."""
    from fencepost.harness.connect import jars

    fetched = jars.fetch(version, lambda text: print_line(f"  {text}"), repair=True)
    print_line(f"Kafka Connect {fetched.version}: {len(fetched.jars)} jars in {fetched.directory}")


@connect_app.command(
    "plugin", epilog="\b\nExample:\n  fencepost connect plugin io.debezium:debezium-connector-postgres:3.2.0.Final:tar.gz:plugin"
)
def connect_plugin(
    coordinates: Annotated[str, typer.Argument(metavar="GROUP:ARTIFACT:VERSION[:EXTENSION[:CLASSIFIER]]")],
) -> None:
    """Fetch a connector's archive from Maven's central repository, and unpack it; a test's `plugins` takes its coordinates."""
    from fencepost.harness.fetching import archives

    directory = archives.fetch(coordinates, lambda text: print_line(f"  {text}"))
    print_line(f"{coordinates}: {sum(1 for _ in directory.rglob('*.jar'))} jars in {directory}")


@connect_app.command("list")
def connect_list(json_: Json = False) -> None:
    """The versions of Kafka Connect that lie in the cache."""
    from fencepost.harness.connect import jars

    installed = jars.all_installed()
    if json_:
        print_json(
            [{"version": entry.version, "directory": str(entry.directory), "jars": dict(entry.jars)} for entry in installed]
        )
    else:
        rows = [(entry.version, str(len(entry.jars)), str(entry.directory)) for entry in installed]
        print_table(("version", "jars", "directory"), rows)
