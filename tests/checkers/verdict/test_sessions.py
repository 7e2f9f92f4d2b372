"""The need for a Spark session, and runs that this process judges by itself."""

from threading import Event, Thread

import pytest
from support.fencepost_command import until
from support.judging import no_session
from support.long_histories import judge_as_long

from fencepost.checkers.api import run_check
from fencepost.checkers.engine import job
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.history import packed_parts
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.verdict.judge import judge
from fencepost.checkers.views.run_view import NO_MASTER
from fencepost.harness.api.errors import HistoryError

SAME = ("verdict", "properties", "allowed", "counts")  # with how much each check compared


@run_check("counted")
def counted(run):
    """Asks for a table of Spark's."""
    return CheckResult(run.ops.count())


@run_check("interrupted")
def interrupted(run):
    """Somebody presses Ctrl-C, when the partitions have been judged."""
    assert run.gathered.on_executors.count() > 0
    raise KeyboardInterrupt


def judged(tmp_path, session, here=True, checks=None):
    """The verdict's document on a short lawful history."""
    return judge(write_lawful(tmp_path / "run", transactions=20), spark=session, here=here, checks=checks)


def test_a_short_history_needs_no_session(tmp_path):
    document = judged(tmp_path, no_session)
    assert document["verdict"] == "valid"
    assert document["checker"]["master"] == NO_MASTER


def test_a_session_and_this_process_come_to_the_same_verdict(spark, tmp_path):
    here, there = judged(tmp_path / "a", no_session), judged(tmp_path / "b", spark, here=False)
    assert there["checker"]["master"].startswith("local[2")
    assert [there[name] for name in SAME] == [here[name] for name in SAME]


def test_a_check_that_asks_for_a_table_has_a_session_made(spark, tmp_path):
    calls = []
    document = judged(tmp_path, lambda: calls.append(1) or spark, checks=[*installed_checks()[0], counted])
    assert calls == [1]
    assert document["checker"]["master"].startswith("local[2")
    [answer] = [row for row in (*document["properties"], *document["allowed"]) if row["name"] == "counted"]
    assert answer["compared"] > 20


@pytest.mark.parametrize(("records", "large"), [(0, 64 << 20), (0, 1), (1 << 40, 64 << 20)])
def test_one_process_and_forks_come_to_the_same_verdict(tmp_path, monkeypatch, records, large):
    """Whether the records are packed, into large partitions or others, or are columns because each partition has few."""
    alone = judged(tmp_path / "a", no_session)
    monkeypatch.setattr(job, "FEW_RECORDS", records)
    monkeypatch.setattr("fencepost.checkers.history.large_partitions.LARGE", large)
    monkeypatch.setattr(job, "RECORDS_OF_A_FORK", 1)
    monkeypatch.setattr("fencepost.checkers.model.forks.cores", lambda: 3)
    shared = judged(tmp_path / "b", no_session)
    assert [shared[name] for name in SAME] == [alone[name] for name in SAME]


def test_a_history_that_does_not_fit_in_memory_goes_to_spark(spark, tmp_path, monkeypatch):
    here = judged(tmp_path / "a", no_session)
    monkeypatch.setattr("fencepost.checkers.engine.placement.most_records", lambda: 0)
    monkeypatch.setattr("fencepost.checkers.engine.placement.SPARK", 0)
    there = judged(tmp_path / "b", lambda: spark)
    assert there["checker"]["master"].startswith("local[2")
    assert [there[name] for name in SAME] == [here[name] for name in SAME]


def test_few_operations_with_many_records_are_scanned_by_executors(spark, tmp_path, monkeypatch):
    here = judged(tmp_path / "a", no_session)
    monkeypatch.setattr("fencepost.checkers.engine.job.MOST_BYTES_IN_TASKS", 0)
    there = judged(tmp_path / "b", lambda: spark, here=False)
    assert there["checker"]["master"].startswith("local[2")
    assert [there[name] for name in SAME] == [here[name] for name in SAME]


def test_what_executors_put_into_files_goes_when_a_judgement_is_interrupted(spark, tmp_path, monkeypatch):
    places = []
    judge_as_long(monkeypatch)

    def noted(spark):
        places.append(shared_place(spark))
        return places[-1]

    shared_place = packed_parts.shared_place
    monkeypatch.setattr(packed_parts, "shared_place", noted)
    with pytest.raises(KeyboardInterrupt):
        judged(tmp_path, spark, here=False, checks=[*installed_checks()[0], interrupted])
    [place] = places
    until(lambda: not list(place.path.parent.glob(f"{place.path.name}*")))


def test_parts_that_are_made_ahead_go_when_the_history_cannot_be_read(spark, tmp_path, monkeypatch):
    places = []
    judge_as_long(monkeypatch)

    def unread(history, isolation):
        until(lambda: places)
        raise OSError("no more of it")

    def noted(spark):
        places.append(shared_place(spark))
        return places[-1]

    shared_place = packed_parts.shared_place
    monkeypatch.setattr(packed_parts, "shared_place", noted)
    monkeypatch.setattr("fencepost.checkers.verdict.opening.read_overview", unread)
    with pytest.raises(HistoryError, match="no more of it"):
        judged(tmp_path, lambda: spark, here=False)
    assert [place.path.exists() for place in places] == [False]


def test_an_unreadable_history_is_told_before_there_is_a_session(tmp_path, monkeypatch):
    judge_as_long(monkeypatch)
    ended = Event()

    def unread(history, isolation):
        raise OSError("no more of it")

    def session():
        ended.wait()
        raise RuntimeError("too late")

    monkeypatch.setattr("fencepost.checkers.verdict.opening.read_overview", unread)
    with pytest.raises(HistoryError, match="no more of it"):
        judged(tmp_path, session, here=False)
    ended.set()


def test_parts_that_were_made_ahead_are_not_made_again(spark, tmp_path, monkeypatch):
    expected = judged(tmp_path / "a", no_session)
    judge_as_long(monkeypatch)
    monkeypatch.setattr(job, "packed_parts", failing)
    document = judged(tmp_path / "b", spark, here=False)
    assert [document[name] for name in SAME] == [expected[name] for name in SAME]


def test_parts_that_cannot_be_made_ahead_are_made_later(spark, tmp_path, monkeypatch):
    expected = judged(tmp_path / "a", no_session)
    judge_as_long(monkeypatch)
    monkeypatch.setattr(packed_parts, "_passed_over", failing)
    document = judged(tmp_path / "b", spark, here=False)
    assert [document[name] for name in SAME] == [expected[name] for name in SAME]


def failing(*_):
    raise OSError("no place")


def test_the_thread_that_makes_the_session_may_judge_a_run_meanwhile(spark, tmp_path):
    """As the one that warms it does: neither waits for the other."""
    ended = []

    def session():
        other = Thread(target=judged, args=(tmp_path / "warm", spark, False), daemon=True)
        other.start()
        other.join(240)
        ended.append(not other.is_alive())
        return spark

    assert judged(tmp_path / "run", session, here=False)["verdict"] == "valid"
    assert ended == [True]
