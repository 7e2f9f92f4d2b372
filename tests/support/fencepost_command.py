"""The command as a person runs it: `fencepost` in a process of its own, with a results directory of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.processes import heed_signals

FENCEPOST = Path(sys.executable).with_name("fencepost")
JUDGED_HERE = (sys.executable, str(Path(__file__).with_name("judged_here.py")))  # without the seconds of Spark
PATIENCE_S = 600.0
SLOWLY = ("--rate", "60")  # operations a second: what is asserted shows in hundreds of them as well as in thousands
ALONE = (*SLOWLY, "--nemesis", "none", "--cluster-set", "brokers=1")
SMALL = (*ALONE, "--set", "writers=2", "--set", "readers=1", "--set", "uncommitted_readers=0")


def start(
    results: Path, *arguments: str, program: Sequence[str] = (str(FENCEPOST),), **environment: str
) -> subprocess.Popen[str]:
    """Start `fencepost ARGUMENTS --results RESULTS`. program: `JUDGED_HERE` where it does not matter that Spark judges."""
    argv = [*program, *arguments, "--results", str(results)]
    env = {**os.environ, **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(argv, **pipes, env=env, preexec_fn=heed_signals)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for it: exit code, standard output, standard error."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def fencepost(results: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run `fencepost ARGUMENTS --results RESULTS` to its end."""
    return finish(start(results, *arguments, **environment))


def only_run(results: Path) -> Path:
    """The one run directory there is."""
    (plan,) = results.glob("*/*/plan.json")
    return plan.parent


def verdict(run_dir: Path) -> dict[str, Any]:
    """The run's verdict document."""
    return json.loads((run_dir / "verdict.json").read_text())


def answers(document: dict[str, Any]) -> dict[str, str]:
    """Each property's answer by name."""
    return {entry["name"]: entry["verdict"] for entry in document["properties"]}


def completed(run_dir: Path, f: str) -> int:
    """How many operations of a kind have been done, by the workers' lines. Clients are initialised before the workload begins."""
    done = re.compile(rb'"type":"ok","process":\d+,"op":\d+,"f":"%b"' % f.encode())
    return sum(len(done.findall(path.read_bytes())) for path in (run_dir / "history").glob("c*.jsonl"))


def workload_runs(results: Path) -> Path | None:
    """The run directory, once its workload has committed something."""
    plans = list(results.glob("*/*/plan.json"))
    return plans[0].parent if plans and completed(plans[0].parent, "txn") else None


def read_until(process: subprocess.Popen[str], words: str) -> None:
    """Read the standard output until a line has these words."""
    assert process.stdout is not None
    seen = ""
    while words not in seen:
        line = process.stdout.readline()
        assert line, f"{words!r} never came: {seen}"
        seen += line


def until(what: Callable[[], Any], within_s: float = 240.0) -> Any:
    """Wait for something true, and return it."""
    deadline = time.monotonic() + within_s
    while not (seen := what()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)
    return seen


def processes_of(run_dir: Path) -> list[str]:
    """Command lines of all live processes that name the run's directory."""
    commands = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it ended while we looked
            if str(run_dir) in line:
                commands.append(line)
    return commands
