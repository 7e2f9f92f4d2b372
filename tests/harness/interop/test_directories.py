"""A directory of files of lines: which history it is, by what is in them."""

from __future__ import annotations

import gzip
import json

import pytest
from support.absences import as_lines, as_text, jepsen_lines, sends
from support.jepsen_example import DATA, Adopted

from fencepost.harness.api.errors import HistoryError
from fencepost.harness.interop.detect import Format, detect

JEPSENS = as_text(jepsen_lines())
OURS = as_text(as_lines(sends()))
RECORD = json.dumps({"at": "start", "node": "b1"}) + "\n"


def folder(tmp_path, **files):
    """A directory with these files; `_` in a name is a dot."""
    for name, content in files.items():
        path = tmp_path / "mine" / name.replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / "mine"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x_jsonl", JEPSENS, Format("jepsen-json")),
        ("x_jsonl_gz", gzip.compress(JEPSENS.encode()), Format("jepsen-json")),
        ("x_jsonl", f"[{','.join(JEPSENS.splitlines())}]", Format("jepsen-json", array=True)),
        ("x_jsonl", (DATA / "queue.edn").read_text(), Format("jepsen-edn")),
    ],
    ids=["lines", "packed", "array", "edn"],
)
def test_a_history_of_jepsens_by_the_name_of_our_lines_is_jepsens(tmp_path, name, content, expected):
    """It was read as our lines, none of which was understood."""
    path = folder(tmp_path, **{name: content, "empty_jsonl": "\n", "faults_parquet": "not looked at"})
    assert detect(path) == expected
    history = Adopted(path, tmp_path / "run")
    assert len(history.rows) > 5
    assert [gap for gap in history.damage if gap.evidence] == []


def test_receipts_of_faults_beside_our_lines_do_not_make_them_tables(tmp_path):
    assert detect(folder(tmp_path, a_jsonl=OURS, faults_parquet="not looked at")) == Format("fencepost-jsonl")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (JEPSENS, JEPSENS, ("a.jsonl (jepsen-json)", "b.jsonl (jepsen-json)")),
        (OURS, JEPSENS, ("b.jsonl (jepsen-json)", "a.jsonl (fencepost-jsonl)")),
        (JEPSENS, "hello\n", ("a.jsonl (jepsen-json)", "b.jsonl (not understood)")),
        (JEPSENS, b"\x1f\x8bcut", ("a.jsonl (jepsen-json)", "b.jsonl (cannot be read)")),
        (OURS, RECORD, ("a.jsonl (fencepost-jsonl)", "b.jsonl (wire-record)")),
    ],
    ids=["two of Jepsen's", "ours", "a text", "a broken file", "a proxy's record"],
)
def test_files_that_are_no_parts_of_one_history_are_named(tmp_path, one, other, words):
    path = folder(tmp_path, a_jsonl=one, b_jsonl=other)
    with pytest.raises(HistoryError, match="are no parts of one history; give the file of one of them") as refused:
        detect(path)
    assert all(word in str(refused.value) for word in words)


@pytest.mark.parametrize("content", ["", "\n", "hello\nworld\n", b"\xff\xfe\n\x00"])
def test_a_directory_without_a_history_in_its_files_is_refused(tmp_path, content):
    with pytest.raises(HistoryError, match=r"none of its \*\.jsonl is a history"):
        detect(folder(tmp_path, a_jsonl=content))


@pytest.mark.parametrize("other", ["hello\n", "{}\n"])
def test_what_is_not_understood_beside_our_lines_may_have_been_some(tmp_path, other):
    history = Adopted(folder(tmp_path, a_jsonl=OURS, b_jsonl=other), tmp_path / "run")
    assert [gap.file for gap in history.damage if "not understood" in gap.why] == ["b.jsonl"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_packed_record_of_a_proxy_is_refused_with_what_to_do(tmp_path, whole):
    """Its reader took the packed bytes for a line."""
    path = folder(tmp_path, **{"b1_jsonl_gz": gzip.compress(RECORD.encode()), **({} if whole else {"b2_jsonl": RECORD})})
    with pytest.raises(HistoryError, match="packed by gzip; unpack it"):
        detect(path)
    with pytest.raises(HistoryError, match="packed by gzip; unpack it"):
        detect(path / "b1.jsonl.gz")


@pytest.mark.parametrize("table", ["history.parquet", "part-0.parquet"])
def test_lines_beside_tables_are_those_of_the_whole_one_or_are_named(tmp_path, table):
    path = folder(tmp_path, a_jsonl=OURS)
    whole = Adopted(path, tmp_path / "run").dir / "history.parquet"
    (path / table).write_bytes(whole.read_bytes())
    if table == "history.parquet":
        assert detect(path) == Format("fencepost-parquet")
        return
    with pytest.raises(HistoryError, match=r"a\.jsonl \(fencepost-jsonl\) and tables are no parts of one history"):
        detect(path)
