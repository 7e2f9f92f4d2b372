"""One test from plan to report: prepare, perform (in the cluster's sandbox), judge (outside it), report.

What a run directory holds, and what is written when: docs/run-directory.md.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.harness.api import (
    CampaignError,
    ClusterError,
    HarnessError,
)
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.errors import HistoryError, Interrupted, MachineError, NotBegun, UnwritableFile
from fencepost.harness.api.events import FailedEvent, PerformedEvent, PerformerEvent, RunEvent, note_event, phase_event
from fencepost.harness.api.files import last_words
from fencepost.harness.api.run import Run, RunFile, write_left_behind
from fencepost.harness.history.run_directory import open_run, read_plan, write_plan, write_verdict
from fencepost.harness.memory.known import NOTHING_KNOWN, Known, with_known
from fencepost.harness.memory.remembered import remembered_of, today
from fencepost.harness.plugins import registry, services
from fencepost.harness.plugins.check_options import load_check
from fencepost.harness.runs import store
from fencepost.harness.secrets import sweep
from fencepost.harness.system import lifeline, liveness, parent_death
from fencepost.harness.system.python_command import module_command
from fencepost.harness.system.whole_lines import whole_lines

if TYPE_CHECKING:
    from fencepost.harness.api.plans import Test

OnEvent = Callable[[RunEvent], None]
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_BROKEN: Mapping[str, type[HarnessError]] = {  # the error for one of the performer, by its kind
    **{broken.__name__: broken for broken in (ClusterError, HistoryError, MachineError, NotBegun)},
    **{unusable.__name__: MachineError for unusable in (CampaignError, UnwritableFile)},
}
_KILLED = (-signal.SIGKILL, parent_death.KILLED)
_SANDBOX_KILLED = "unshare: sigprocmask unblock failed: Invalid argument"  # its way to say that its child had SIGKILL; exit 1
_NO_ROOM = os.strerror(errno.ENOSPC)
_LITTLE = 8 << 20  # bytes of a disk on which brokers and workers soon cannot write
LIFELINE_S = 30.0  # for a sandbox to end and to remove what it has elsewhere (containers)


class Runner:
    """Performs tests one after the other, and keeps one Spark session for judging them all."""

    def __init__(
        self,
        *,
        results: Path,
        master: str = "local[*]",
        on_event: OnEvent,
        spark_conf: Mapping[str, str] | None = None,
        known: Known = NOTHING_KNOWN,
    ) -> None:
        self._results, self._master, self._on_event, self._spark_conf = results, master, on_event, dict(spark_conf or {})
        self._known = known
        self._spark: Any = None
        self._spark_error: Exception | None = None
        self._spark_thread: threading.Thread | None = None
        self._spark_end: threading.Thread | None = None
        self._performer: subprocess.Popen[bytes] | None = None
        self._run_dir = results
        self._stopping = ""  # who asked to
        self._held = (results, liveness.Hold(None))  # the run that is performed or judged

    # -- Spark -----------------------------------------------------------------------------------
    def start_spark(self, *, warm: bool = True) -> None:
        """Start the session in the background, so that the verdict does not wait for it; `warm` it where there is time."""
        if self._spark_thread is None:
            with suppress(Exception):  # the thread meets it again
                services.judge().import_spark()  # here: two threads that import take turns, and the JVM would start later
            self._spark_thread = threading.Thread(target=self._start_spark, args=(warm,), daemon=True)
            self._spark_thread.start()

    def _start_spark(self, warm: bool) -> None:
        try:
            judge = services.judge()
            spark = judge.start_session(self._master, self._spark_conf)
            if warm:
                judge.warm(spark)
            self._spark = spark
        except Exception as error:  # noqa: BLE001 - raised again where the session is needed
            self._spark_error = error

    def _session(self) -> Any:
        self.start_spark(warm=False)
        assert self._spark_thread is not None
        self._spark_thread.join()
        if self._spark is None:
            raise MachineError(
                f"Spark did not start on {self._master}: {self._spark_error}; `fencepost doctor` says what is missing"
            )
        return self._spark

    # -- prepare ---------------------------------------------------------------------------------
    def prepare(self, test: Test, *, seed: int, command: str, round: str = "") -> Path:
        """Decide everything and write it down: a new run directory with its plan.json. Nothing is started.

        round: the performance of the campaign that the run belongs to; empty: none.
        """
        from fencepost.harness.planning.plan import hopeless, look_up_secrets, make_plan, unscheduled

        look_up_secrets([test])
        run = "".join(secrets.choice(_ALPHABET) for _ in range(6))
        plan = make_plan(test, run=run, seed=seed, command=command)
        if round:
            plan = {**plan, "round": round}
        for text in [*hopeless(test), *unscheduled(test, plan)]:
            self._on_event(note_event(text))
        run_dir = store.new_run_dir(self._results, test.campaign or test.name, run)
        self.hold(run_dir)
        try:
            write_plan(run_dir, plan)
        except BaseException:
            store.discard(run_dir)
            raise
        return run_dir

    def hold(self, run_dir: Path) -> int | None:
        """Keep a run from being removed until the next is held, or all is over; the file that holds it."""
        held, lock = self._held
        if held != run_dir or lock.descriptor is None:
            lock.close()
            self._held = run_dir, liveness.hold(run_dir)
        return self._held[1].descriptor

    # -- perform ---------------------------------------------------------------------------------
    def perform(self, run_dir: Path) -> None:
        """Perform the plan in its cluster's sandbox. Raises ClusterError, HarnessError, or Interrupted when killed."""
        from fencepost.harness.api.optional import PrefixesNames

        plan = read_plan(run_dir)
        provider = registry.build(
            registry.load("fencepost.cluster", plan["cluster"]["kind"]), plan["cluster"]["options"], "cluster"
        )
        argv = provider.sandbox(module_command("fencepost.harness.perform.performer", str(run_dir.resolve())))
        ended: PerformedEvent | FailedEvent | None = None
        lock = self.hold(run_dir)  # the supervisor has it too, and lives until all in the sandbox is gone
        with log_file(run_dir, f"{RunFile.LOGS}/performer.log") as log:
            # a session of its own: Ctrl-C reaches the harness alone, and the harness decides what it means
            performer = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(run_dir),
                start_new_session=True,
                pass_fds=() if lock is None else (lock,),
            )
        self._performer, self._run_dir = performer, run_dir
        if self._stopping:
            self._send_stop()
        assert performer.stdout is not None
        for line in whole_lines(performer.stdout):
            event: PerformerEvent = json.loads(line)
            if event["event"] == "performed" or event["event"] == "failed":
                ended = event
            else:
                self._on_event(event)
        performer.wait()
        self._performer = None
        if not ended:
            _remove_data(run_dir)
            sweep(run_dir, RunFile.LOGS, lambda text: self._on_event(note_event(text)))
        if not ended and isinstance(provider, PrefixesNames):
            write_left_behind(
                run_dir, [f"{', '.join(plan['topics'])}: performing ended before it could remove them (kafka-topics.sh --delete)"]
            )
        for text in open_run(run_dir).left_behind:
            self._on_event(note_event(f"left behind: {text}"))
        if ended is None:
            raise self._cut_off(run_dir, performer.returncode)
        if ended["event"] == "failed":
            text = ended["text"] if _NO_ROOM in ended["text"] else ended["text"] + _full_disk(run_dir)
            raise _BROKEN.get(ended["kind"], HarnessError)(text)

    def _cut_off(self, run_dir: Path, code: int) -> HarnessError:
        log = run_dir / "logs" / "performer.log"
        words = last_words(log)
        if (code in _KILLED or words.endswith(_SANDBOX_KILLED)) and not self._stopping:
            return MachineError(
                f"performing the test was killed: for lack of memory (dmesg tells), or by somebody; logs: {run_dir}"
            )
        text = f"performing the test ended early (exit {code}); last words in {log}: {words}"
        return Interrupted(text) if self._stopping else HarnessError(text)

    def request_stop(self, by: str) -> None:
        """End the workload now, heal, read back, and return from `perform`. by: who asks, in words (`Ctrl-C`)."""
        self._stopping = by
        self._send_stop()

    def _send_stop(self) -> None:
        if self._performer is not None and self._performer.stdin is not None:
            try:
                self._performer.stdin.write(json.dumps({"stop": self._stopping}).encode() + b"\n")
                self._performer.stdin.flush()
            except BrokenPipeError:
                return  # it has ended by itself

    def kill(self) -> None:
        """Ctrl-C twice: end the sandbox at once, by the end of its lifeline; whoever supervises it takes everything along."""
        self._stopping = self._stopping or "a signal"
        if self._performer is not None:
            lifeline.cut(self._performer, LIFELINE_S)
            _remove_data(self._run_dir)

    # -- fetch -----------------------------------------------------------------------------------
    def fetch(self, url: str, contract: Mapping[str, str]) -> Path:
        """A new run directory for the run or the history at `url`, whose history is left where it is.

        contract: what a history without plan is taken to promise. Raises CampaignError (nothing is there) and HistoryError.
        """
        run_dir = store.new_run_dir(self._results, "adopted", secrets.token_hex(3))
        self.hold(run_dir)
        self._phase("fetch", f"{url}: what is needed of it goes to {run_dir}")
        from fencepost.harness.runs import remote

        try:
            remote.adopt(self._session(), url, run_dir, contract)
        except BaseException:
            store.discard(run_dir)
            raise
        return run_dir

    # -- judge -----------------------------------------------------------------------------------
    def judge(
        self,
        run: Run,
        contract: Mapping[str, str] | None = None,
        checkers: Sequence[str] = (),
        last: bool = False,
        here: bool = False,
    ) -> dict[str, Any]:
        """Merge, check and report; also for a run that was cut off, and for one judged before. Returns the verdict document.

        checkers: import paths of checks to ask beside the installed ones, named by whoever gave the command. The plan's are not
        loaded: a run directory may come from anywhere, and shall run no code. Raises CampaignError for a bad one.
        last: nothing is judged after it, so Spark ends beside the report. here: Spark is not started for a history that fits in
        memory.
        Everything is written where the run says (`Run.judgement`).
        """
        from fencepost.harness import report  # here, and not above: until Spark has started, nothing else is to do
        from fencepost.harness.runs.merging import merged

        report.compile_templates()
        own_checks = {path: load_check(path) for path in checkers}
        self.hold(run.directory)
        began = time.monotonic()
        run = merged(run, lambda: self._phase("merge", "merging the workers' histories"))
        merge_s = time.monotonic() - began
        self._phase("check", "checking")
        verdict = services.judge().judge(run, self._session, contract, own_checks, here)
        verdict["timing"] = {**verdict.get("timing", {}), "merge_s": round(merge_s, 3)}
        verdict["weakened"] = [*verdict.get("weakened", []), *ignored_checks(run, own_checks)]
        if run.judgement:
            verdict["judged_by"] = {"contract": dict(contract or {}), "checkers": list(checkers)}
        verdict = with_known(verdict, run, self._known, today())
        write_verdict(run.directory, verdict, run.place(RunFile.VERDICT))
        self._phase("report", "writing the report")
        run = run.judged(verdict)
        self._bring(run)
        if last:
            self._end_spark()
        report.render(run, remembered_of(run, self._results, self._known))
        return verdict

    def _bring(self, run: Run) -> None:
        """Bring what the report shows of a history on another file system; without it the report says what it lacks."""
        if run.is_remote:
            from fencepost.harness.runs import remote

            try:
                remote.bring(self._session(), run)
            except HistoryError as error:
                self._on_event(note_event(f"the report lacks its timeline: {error}"))

    def _phase(self, phase: str, text: str) -> None:
        self._on_event(phase_event(phase, text))

    def close(self) -> None:
        """End what is left: a performer, and Spark."""
        if self._performer is not None:
            self.kill()
        self._end_spark()
        if self._spark_end is not None:
            self._spark_end.join()
        self._held[1].close()

    def _end_spark(self) -> None:
        """End the session, which takes as long as a report, in the background."""
        if self._spark is not None:
            spark, self._spark = self._spark, None
            self._spark_end = threading.Thread(target=_stop, args=(spark,))
            self._spark_end.start()


def _full_disk(run_dir: Path) -> str:
    """What a full disk adds to an error, which may have it as its cause without saying so; empty where there is room."""
    try:
        free = shutil.disk_usage(run_dir).free
    except OSError:
        return ""
    return f"; the disk of {run_dir} is full ({free >> 10} KiB are free), which may be why" if free < _LITTLE else ""


def ignored_checks(run: Run, named: Iterable[str]) -> list[str]:
    """The checks that the plan names and nobody else: neither the command nor an installed package; a sentence each."""
    known = {_without_options(path) for path in (*named, *registry.import_paths("checker"))}
    planned = run.plan.get("checkers") or ()
    ignored = [str(path) for path in ([planned] if isinstance(planned, str) else planned) if _without_options(path) not in known]
    return [f"the check {path} of the plan was not asked, since a plan alone runs no code: --checker {path}" for path in ignored]


def _without_options(check: Any) -> str:
    """The import path of a check that is named with or without options (`module:NAME,KEY=VALUE...`)."""
    return str(check).partition(",")[0]


def _stop(spark: Any) -> None:
    with suppress(Exception):  # the JVM may be gone
        spark.stop()


def _environment(run_dir: Path) -> dict[str, str]:
    """The environment of a performer: a sandbox that loses its harness shall remove the brokers' data too."""
    return {**os.environ, "FENCEPOST_SCRATCH": str(run_dir.resolve() / "data")}


def _remove_data(run_dir: Path) -> None:
    """The data of brokers that have ended with a performer which could not remove them itself, as it was killed."""
    shutil.rmtree(run_dir / "data", ignore_errors=True)
