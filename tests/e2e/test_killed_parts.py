"""Parts of a run that somebody kills while it is performed, as the kernel does without memory: the verdict says what is lost, and
accuses nobody."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from subprocess import Popen

import pytest
from support.fencepost_command import SMALL, answers, finish, only_run, processes_of, start, until, verdict

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]


def parts_of(place: Path, *words: str) -> list[int]:
    """Processes with these words in their command line that were started for the place: it is their TMPDIR."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                ours = f"TMPDIR={place}\0".encode() in (entry / "environ").read_bytes()
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it ended while we looked
            if ours and all(word in line for word in words):
                found.append(int(entry.name))
    return found


def struck(place: Path, phase: str, words: tuple[str, ...], *more: str) -> Popen[str]:
    """A run of which a part was killed when a line of its output had told of the phase, and the part was there."""
    (place / "tmp").mkdir()
    process = start(place, "run", "--time", "8", *SMALL, *more, TMPDIR=str(place / "tmp"))
    assert process.stdout is not None
    output = ""
    while phase not in output:
        line = process.stdout.readline()
        assert line, f"it ended early: {output}"
        output += line
    for pid in until(lambda: parts_of(place / "tmp", *words), 30):
        os.kill(pid, signal.SIGKILL)
    return process


def violated(document) -> list[str]:
    return [name for name, answer in answers(document).items() if answer == "violated"]


@pytest.mark.parametrize(
    ("words", "more", "name"),
    [
        (("kafka.Kafka",), (), "n1"),
        (("fencepost.proxy.Proxy",), ("--cluster-set", "proxy=true"), "the proxy before n1"),
    ],
    ids=["broker", "proxy"],
)
def test_what_ended_is_named_and_nobody_is_accused(tmp_path, words, more, name):
    process = struck(tmp_path, "workload and faults", words, *more)
    code, out, err = finish(process)
    document = verdict(only_run(tmp_path))
    assert code in (0, 2), out + err
    assert violated(document) == []
    assert any(text.startswith(f"{name} ended, and no fault ended it") for text in document["weakened"]), document["weakened"]


def test_a_worker_is_replaced(tmp_path):
    process = struck(tmp_path, "workload and faults", ("perform.worker", " 0 0 0 "))
    code, out, err = finish(process)
    assert code == 0, out + err
    assert "worker 0 is gone (exit -9); replaced" in out
    assert violated(verdict(only_run(tmp_path))) == []


def test_without_a_final_reader_the_verdict_is_unknown(tmp_path):
    process = struck(tmp_path, "final-read", ("perform.worker", " 3 3 0 "))
    code, out, err = finish(process)
    assert code == 2, out + err
    assert "for it is gone (exit -9): the final read is incomplete" in out
    assert violated(verdict(only_run(tmp_path))) == []


def test_without_its_supervisor_the_run_has_no_verdict_and_can_be_judged(tmp_path, here):
    process = struck(tmp_path, "workload and faults", ("clusters.local.init",))
    code, out, err = finish(process)
    run_dir = only_run(tmp_path)
    assert code == 254, out + err
    until(lambda: not processes_of(run_dir), 20)
    assert not (run_dir / "data").exists()
    code, out, _ = here("check", str(run_dir), "--json")
    assert (code, json.loads(out)["verdict"]) == (2, "unknown")
