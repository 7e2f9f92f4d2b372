"""`fencepost cluster`: versions of Kafka in the cache, and images made of them."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.harness.cli.console import Json, print_json, print_line, print_table

IMAGE_EXAMPLES = (
    "\b\nExamples:\n  sudo fencepost cluster image\n  fencepost cluster image --kafka 3.9.1 --base eclipse-temurin:21-jre"
)

cluster_app = typer.Typer(
    help="Kafka by version: fetched once, kept for all runs; images.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(cluster_app, name="cluster")


@cluster_app.command("fetch", epilog="\b\nExample:\n  fencepost cluster fetch 4.4.0")
def cluster_fetch(version: Annotated[str, typer.Argument(metavar="VERSION")]) -> None:
    """Fetch a version of Kafka into the cache (about 45 MB)."""
    from fencepost.harness.plugins import services

    fetched = services.kafka().fetch(version, lambda text: print_line(f"  {text}"))
    print_line(f"Kafka {fetched.version}: {len(fetched.jars)} jars in {fetched.directory}")


@cluster_app.command("image", epilog=IMAGE_EXAMPLES)
def cluster_image(
    kafka: Annotated[str, typer.Option("--kafka", metavar="VERSION", help="Kafka's version.")] = "4.4.0",
    base: Annotated[str, typer.Option("--base", metavar="IMAGE", help="An image with Java 17 or newer to build on.")] = "",
) -> None:
    """Build the image that `--cluster docker` makes brokers of, where no registry has one for you.

    It holds the same jars as `local` uses. Without --base, Debian's debootstrap makes a base with Java first (as root, once).
    """
    from fencepost.harness.plugins import services

    made = services.docker().build_image(kafka, base, lambda text: print_line(f"  {text}"))
    print_line(f"{made.name}: {made.id}")


@cluster_app.command("list")
def cluster_list(json_: Json = False) -> None:
    """The versions of Kafka that lie in the cache."""
    from fencepost.harness.plugins import services

    installed = services.kafka().installed()
    if json_:
        print_json([{"version": jars.version, "directory": str(jars.directory), "jars": dict(jars.jars)} for jars in installed])
    else:
        rows = [(jars.version, str(len(jars.jars)), str(jars.directory)) for jars in installed]
        print_table(("version", "jars", "directory"), rows)
