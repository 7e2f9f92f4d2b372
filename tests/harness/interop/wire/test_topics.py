"""Topics that were made again under their name, and records that brokers deleted: unknown, and nobody is accused."""

from __future__ import annotations

import pytest
from support.histories import answer, violated
from support.wire_records import Record, got, marker

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt

OLD, NEW = "old-id", "new-id"


def judged(record, directory, **contract):
    run = directory / "run"
    run.mkdir()
    adopt(record.write(directory / "record"), run, contract)
    return judge(open_run(run), here=True)


def metadata(record, *ids, topic="t"):
    return record.ask("Metadata", 12, given={"partitions": [{"topic": topic, "topic_id": one} for one in ids]})


def delete(record, error=0, **topic):
    name = topic or {"name": "t"}
    return record.ask("DeleteTopics", 6, body={"topics": [name]}, given={"body": {"responses": [{**name, "errorCode": error}]}})


def create(record, error=0, **more):
    topics = [{"name": "t", "errorCode": error}]
    return record.ask("CreateTopics", 7, body={"topics": [{"name": "t"}], **more}, given={"body": {"topics": topics}})


def before():
    """Three records, of which nobody has read the second."""
    return Record().initialise().transaction([(0, 0), (1, 1), (2, 2)])


def read_over(record):
    """A reader that goes on over the place of the second one."""
    return record.read(got(0, 0), got(2, 2), marker(3))


def is_unknown(verdict, why):
    return (violated(verdict), verdict["verdict"]) == ([], "unknown") and why in str(verdict["weakened"])


def test_a_topic_that_stays_the_same_is_judged(tmp_path):
    record = metadata(read_over(metadata(before(), OLD)), OLD)
    assert "lost-write" in violated(judged(record, tmp_path))


def test_a_topic_with_another_id(tmp_path):
    record = read_over(metadata(metadata(before(), OLD), NEW))
    assert is_unknown(judged(record, tmp_path), "2 ids")


def test_another_id_in_a_fetch(tmp_path):
    record = read_over(metadata(before(), OLD))
    record.lines[-1]["partitions"][0]["topic_id"] = NEW
    assert is_unknown(judged(record, tmp_path), "2 ids")


@pytest.mark.parametrize("topic", [{"name": "t"}, {"topicId": OLD, "name": None}])
def test_data_behind_a_deletion(tmp_path, topic):
    record = read_over(delete(metadata(before(), OLD), **topic))
    assert is_unknown(judged(record, tmp_path), "it was deleted, and there again")


def test_a_deletion_without_an_answer(tmp_path):
    record = before().ask("DeleteTopics", 1, body={"topicNames": ["t"]}, answered=False)
    assert is_unknown(judged(read_over(record), tmp_path), "it was deleted, and there again")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(delete(read_over(before())), id="a deletion at the end"),
        pytest.param(read_over(delete(before(), error=29)), id="a deletion that was refused"),
        pytest.param(read_over(delete(before(), name="other")), id="the deletion of another topic"),
        pytest.param(read_over(create(before(), error=36)), id="a creation that was refused"),
        pytest.param(read_over(create(before(), validateOnly=True)), id="a creation that was tried out"),
    ],
)
def test_a_topic_that_was_not_made_again_is_judged(record, tmp_path):
    assert "lost-write" in violated(judged(record, tmp_path))


def test_a_creation_behind_data(tmp_path):
    assert is_unknown(judged(read_over(create(before())), tmp_path), "it was created once more")


def given_anew(record):
    """A second producer's batch lies where the first one's had been."""
    record = record.initialise("b", (8, 0)).transaction([(0, 1), (1, 2)], producer=(8, 0), transactional_id="b")
    return record.read(got(0, 0), got(1, 2, (8, 0)), marker(3))


def test_offsets_that_are_given_anew(tmp_path):
    assert is_unknown(judged(given_anew(before()), tmp_path), "offsets were given anew")


def test_offsets_of_the_same_topic_that_are_given_anew_are_a_log_that_was_cut_off(tmp_path):
    verdict = judged(metadata(given_anew(before()), OLD), tmp_path)
    assert "lost-write" in violated(verdict)


def test_an_id_from_before_says_nothing_of_later(tmp_path):
    record = given_anew(metadata(before(), OLD))
    assert is_unknown(judged(record, tmp_path), "its id is not known from then on")


def high(record, mark, offset=3, **more):
    return record.fetch(offset, high_watermark=mark, **more)


def test_a_high_watermark_below_what_had_been_read(tmp_path):
    record = high(read_over(before()), 2, connection=10)
    assert is_unknown(judged(record, tmp_path), "its high watermark went back")
    (tmp_path / "same").mkdir()
    assert "lost-write" in violated(judged(metadata(record, OLD), tmp_path / "same"))


def test_another_topic_is_left_as_it_is(tmp_path):
    verdict = judged(metadata(metadata(read_over(before()), OLD, topic="other"), NEW, topic="other"), tmp_path)
    assert "lost-write" in violated(verdict) or answer(verdict, "lost-write")["verdict"] == "unknown"


def test_a_start_of_the_log_behind_what_was_appended(tmp_path):
    """Retention took it before anybody had fetched."""
    record = before().fetch(2, [got(2, 2)], log_start=2).fetch(3, log_start=2)
    record.read(got(0, 0), got(2, 2), connection=10)
    verdict = judged(record, tmp_path)
    assert violated(verdict) == []
    assert "no absence is judged" in str(verdict["weakened"])


def test_compaction_that_took_a_whole_batch_is_declared(tmp_path):
    """Nothing on the wire tells it from a record that was lost."""
    assert "lost-write" in violated(judged(read_over(before()), tmp_path))
    (tmp_path / "declared").mkdir()
    assert violated(judged(read_over(before()), tmp_path / "declared", compaction="true")) == []
