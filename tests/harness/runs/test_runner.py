"""The runner's Spark session, and checks that it does not ask: who judges is a double, so that no JVM starts."""

import json
import threading
from types import SimpleNamespace

import pytest

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.harness import report
from fencepost.harness.api.errors import MachineError
from fencepost.harness.history.run_directory import open_run, write_plan
from fencepost.harness.plugins import services
from fencepost.harness.runs import runner
from fencepost.harness.runs.runner import Runner, ignored_checks


class Session:
    def __init__(self):
        self.ended = threading.Event()

    def stop(self):
        self.ended.set()
        raise ConnectionError("the JVM is gone")


class Judge:
    def __init__(self, session):
        self._session = session

    def import_spark(self):
        raise ImportError("Spark is not installed for the first of two who ask")

    def start_session(self, master, conf):
        return self._session

    def judge(self, run, session, contract, more, here):
        session()
        return {"verdict": "valid"}


def judged(tmp_path, monkeypatch, last):
    """Return whether the session was over when the report was made, and whether it is after the end."""
    session, before = Session(), []
    monkeypatch.setattr(services, "judge", lambda: Judge(session))
    monkeypatch.setattr(report, "render", lambda run, *_: before.append(session.ended.wait(60 if last else 0)))
    runner = Runner(results=tmp_path, on_event=lambda event: None)
    runner.start_spark(warm=False)
    runner.judge(open_run(write_lawful(tmp_path / "run", transactions=5).directory), last=last)
    runner.close()
    return before, session.ended.is_set()


def test_the_session_ends_beside_the_report_of_the_last_run(tmp_path, monkeypatch):
    """An end that fails is no reason to lose the verdict."""
    assert judged(tmp_path, monkeypatch, last=True) == ([True], True)


def test_the_session_lives_on_for_the_next_run(tmp_path, monkeypatch):
    assert judged(tmp_path, monkeypatch, last=False) == ([False], True)


@pytest.mark.parametrize(
    ("named", "ignored"),
    [([], 1), (["mine:gap"], 0), (["mine:gap,least=5"], 0), (["mine:other"], 1)],
)
def test_a_check_of_the_plan_is_asked_when_it_is_named_with_whatever_options(tmp_path, named, ignored):
    run = write_lawful(tmp_path, transactions=5)
    plan = {**run.plan, "checkers": ["mine:gap,least=3"]}
    (run.directory / "plan.json").write_text(json.dumps(plan))
    texts = ignored_checks(open_run(run.directory), named)
    assert [text.startswith("the check mine:gap,least=3 of the plan was not asked") for text in texts] == [True] * ignored


@pytest.mark.parametrize(
    "script",
    [
        "kill -9 $$",
        """printf '{"event": "note", "text": "cut o'; kill -9 $$""",
        "echo 'unshare: sigprocmask unblock failed: Invalid argument' >&2; exit 1",
    ],
    ids=["the performer", "as it wrote", "the supervisor"],
)
def test_what_brokers_had_goes_with_a_sandbox_that_was_killed(tmp_path, monkeypatch, script):
    """Somebody killed it, and nobody inside could clean up."""
    write_plan(tmp_path, {"run": "a", "cluster": {"kind": "local", "options": {}}, "topics": {}})
    (tmp_path / "data" / "n1").mkdir(parents=True)
    sandbox = SimpleNamespace(sandbox=lambda _: ["sh", "-c", script])
    monkeypatch.setattr(runner.registry, "load", lambda *_: None)
    monkeypatch.setattr(runner.registry, "build", lambda *_: sandbox)
    with pytest.raises(MachineError, match="performing the test was killed"):
        Runner(results=tmp_path, on_event=lambda event: None).perform(tmp_path)
    assert not (tmp_path / "data").exists()
