"""Jars from Maven's central repository, resolved by the Ivy that PySpark ships, so that Java is all a machine needs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from fencepost.harness.api import CampaignError, ClusterError, HarnessError
from fencepost.harness.fetching.java import java
from fencepost.harness.system import programs

Ivy = Callable[[Path, Path, Path], "subprocess.CompletedProcess[str]"]  # (ivy.xml, destination, cache)
Coordinates = tuple[str, str, str]  # organisation, artifact, version
_FETCH_S = 900.0
_UNREACHED = ("UnknownHost", "Host ", "ConnectException", "timed out", "Connection refused", "SERVER ERROR")


def fetch(title: str, wanted: Sequence[Coordinates], directory: Path, hint: str = "", ivy: Ivy | None = None) -> None:
    """Put these artifacts, and what they depend on, as jars into a directory.

    title: what is fetched, for messages; hint: the end of these.
    Raises CampaignError when there is no such version, ClusterError when it could not be reached.
    """
    work = directory / "ivy"  # of its own, Ivy's cache included: no broken-off fetch has left anything in it
    work.mkdir()
    recipe = work / "ivy.xml"
    recipe.write_text(_recipe(wanted))
    done = (ivy or run_ivy)(recipe, directory, work / "cache")
    _, artifact, version = wanted[0]
    if done.returncode != 0 or not (directory / f"{artifact}-{version}.jar").exists():
        raise _refused(title, hint, done.stdout + done.stderr)
    shutil.rmtree(work)


def fetch_archive(coordinates: str, directory: Path, ivy: Ivy | None = None) -> Path:
    """Put one artifact, without what it depends on, into a directory; the file.

    coordinates: `GROUP:ARTIFACT:VERSION[:EXTENSION[:CLASSIFIER]]`. Raises as `fetch` does.
    """
    group, name, version, *more = coordinates.split(":")
    extension, classifier = more[0] if more else "jar", more[1] if len(more) > 1 else ""
    work = directory / "ivy"
    work.mkdir()
    recipe = work / "ivy.xml"
    recipe.write_text(_archive_recipe(group, name, version, extension, classifier))
    done = (ivy or run_ivy)(recipe, directory, work / "cache")
    file = directory / f"{name}-{version}{f'-{classifier}' if classifier else ''}.{extension}"
    if done.returncode != 0 or not file.exists():
        raise _refused(coordinates, "", done.stdout + done.stderr)
    shutil.rmtree(work)
    return file


def run_ivy(recipe: Path, destination: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Resolve `recipe` (an ivy.xml) and put the jars into `destination`."""
    spec = find_spec("pyspark")
    jars = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        raise ClusterError("jars are fetched with the Ivy inside PySpark, and this PySpark has none: pip install 'pyspark>=4.1'")
    pattern = f"{destination}/[artifact]-[revision](-[classifier]).[ext]"
    argv = [java()[0], "-jar", str(jars[-1]), "-ivy", str(recipe), "-retrieve", pattern, "-cache", str(cache)]
    try:
        return programs.run(argv, _FETCH_S)  # it does not outlive us, or it would write on into what the next fetch removes
    except subprocess.TimeoutExpired as e:
        raise ClusterError(f"fetching jars: no end after {_FETCH_S:.0f} s; is Maven's central repository slow today?") from e


def _recipe(wanted: Sequence[Coordinates]) -> str:
    lines = [f'    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"/>' for org, name, rev in wanted]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            '  <info organisation="fencepost" module="fetched"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *lines,
            "  </dependencies>",
            "</ivy-module>",
            "",
        ]
    )


def _archive_recipe(group: str, name: str, version: str, extension: str, classifier: str) -> str:
    marked = f' m:classifier="{classifier}"' if classifier else ""
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
            '  <info organisation="fencepost" module="fetched"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            f'    <dependency org="{group}" name="{name}" rev="{version}" conf="default->default" transitive="false">',
            f'      <artifact name="{name}" type="{extension}" ext="{extension}"{marked}/>',
            "    </dependency>",
            "  </dependencies>",
            "</ivy-module>",
            "",
        ]
    )


def _refused(title: str, hint: str, output: str) -> HarnessError:
    """The error for the resolver's output: there is no such version, or it could not be reached; with the resolver's words."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    unreached = [line for line in lines if any(word in line for word in _UNREACHED)]
    absent = [line for line in lines if "not found" in line]
    if absent and not unreached:
        return CampaignError([f"{title}: there is no such version ({absent[0]}). {hint}".strip()])
    causes = list(dict.fromkeys(line for line in lines if line in [*unreached, *absent] or "ERROR" in line))[:4]
    return ClusterError(
        f"{title} could not be fetched: {'; '.join(causes) or ' '.join(lines[-3:])}. {hint}. "
        f"If the version exists, is Maven's central repository reachable from here?"
    )
