"""`fencepost clean` beside a whole run: while it performs, while it is judged, and after its harness was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.system import liveness
from support.fencepost_command import FENCEPOST, SMALL, finish, processes_of, until, verdict, workload_runs

APART = ("unshare", "-Urpf", "--mount-proc", "--kill-child")  # a PID namespace of its own, as a container has
ENDED_S = 120.0  # a node in Docker outlives its harness by a lease of 60 s at most


@dataclass(frozen=True)
class Place:
    """A results directory and a directory for temporary files, of one test alone."""

    root: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    def command(self, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start `fencepost ARGUMENTS` on these directories, behind `prefix`."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        argv = [*prefix, str(FENCEPOST), *arguments, "--results", str(self.results)]
        env = {**os.environ, "TMPDIR": str(self.temporary)}
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def clean(self, *arguments: str) -> str:
        """Output of `fencepost clean`."""
        code, out, err = finish(self.command("clean", *arguments))
        assert code == 0, out + err
        return out + err

    def run(self) -> Path | None:
        """The run directory, once there is one."""
        plans = list(self.results.glob("*/*/plan.json"))
        return plans[0].parent if plans else None

    def committed(self) -> Path | None:
        """The run directory, once its workload has committed something."""
        return workload_runs(self.results)

    def temporaries(self) -> list[Path]:
        """Our temporary directories."""
        return sorted(self.temporary.glob("fencepost-*-*"))


def harness_of(process: subprocess.Popen[str]) -> int:
    """The process id of the harness: the process itself, or the child of the `unshare` before it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if b"unshare" in Path(f"/proc/{process.pid}/cmdline").read_bytes() else process.pid


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process stands still within the block, so that what it has begun stays begun."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def require_untouched(place: Place, run: Path) -> str:
    """`clean --runs 0 --yes` removes nothing of it, names the run and every temporary directory as in use; what it prints."""
    in_use = [run, *place.temporaries()]
    content = set(run.iterdir())
    text = place.clean("--runs", "0", "--yes")
    gone = [path for path in (*in_use, *content) if not path.exists()]
    assert not gone, (gone, text)
    for path in in_use:
        assert f"left alone: {path}, in use by " in text, text
    return text


def left_alone(place: Place, run: Path) -> list[str]:
    """Lines about what `clean --runs 0 --yes` leaves of a run."""
    lines = [line for line in place.clean("--runs", "0", "--yes").splitlines() if line.startswith("left alone")]
    return [line for line in lines if run.name in line or str(place.temporary) in line]


def a_live_run_is_left_alone(place: Place, options: Sequence[str], prefix: Sequence[str] = ()) -> tuple[str, Path]:
    """A run is valid although `clean` was called while it performed and while it was judged; what that printed, and the run."""
    process = place.command("run", "--time", "8", *SMALL, *options, prefix=prefix)
    try:
        run = until(lambda: place.committed() or process.poll())
        assert isinstance(run, Path), finish(process)
        text = require_untouched(place, run)
        until(lambda: (run / "history.parquet").exists() or process.poll() is not None)
        with frozen(harness_of(process)):
            assert not (run / "verdict.json").exists()
            require_untouched(place, run)
        code, out, err = finish(process)
    finally:
        process.kill()
    assert (code, verdict(run)["verdict"]) == (0, "valid"), out + err
    return text, run


def a_live_check_is_left_alone(place: Place, run: Path, prefix: Sequence[str] = ()) -> None:
    """`clean` beside `check latest`, on Spark, touches nothing, and the check answers as before."""
    (run / "verdict.json").unlink()
    process = place.command("check", "latest", "--spark-master", "local[2]", prefix=prefix)
    until(lambda: (place.temporaries() and liveness.lock_reference(run)) or process.poll() is not None)
    assert process.poll() is None, finish(process)
    with frozen(harness_of(process)):
        require_untouched(place, run)
    code, out, err = finish(process)
    assert (code, verdict(run)["verdict"]) == (0, "valid"), out + err


def a_killed_run_is_removed(place: Place, options: Sequence[str], prefix: Sequence[str] = ()) -> Path:
    """After kill -9 of the harness nothing of the run lives on, and `clean --runs 0 --yes` removes all; the run's directory."""
    process = place.command("run", "--time", "600", *SMALL, *options, prefix=prefix)
    run = until(lambda: place.committed() or process.poll())
    assert isinstance(run, Path), finish(process)
    os.kill(harness_of(process), signal.SIGKILL)
    process.communicate()
    until(lambda: not processes_of(run), ENDED_S)
    until(lambda: not left_alone(place, run), ENDED_S)
    assert place.temporaries() == []
    assert not run.exists()
    return run
