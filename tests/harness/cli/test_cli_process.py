"""The command as a process: signals, a terminal, and what help costs to import."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.fencepost_command import until
from support.processes import heed_signals

from fencepost.harness.cli import main

FAKE = [sys.executable, str(Path(__file__).parents[2] / "support" / "fake_engine.py")]
RUN = ["run", "--workload", "letters", "--cluster", "attic", "--client", "pigeon", "--nemesis", "none"]

OUTPUT = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}  # of a process to which a test sends signals

pytestmark = pytest.mark.usefixtures("stranger")


def start(name, *more, results="results"):
    """`fencepost run` as a process, when its workload runs already (its status line has come)."""
    argv = [*FAKE, *RUN, "--name", name, "--results", results, *more]
    process = subprocess.Popen(argv, **OUTPUT, start_new_session=True, preexec_fn=heed_signals)
    output = ""
    while "25 of 30 s" not in output:
        line = process.stdout.readline()
        assert line, f"it ended early: {output}"
        output += line
    return process


def test_the_first_ctrl_c_judges_what_was_recorded():
    process = start("endless", "--seed", "7")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "stopping: heal, collect, and judge what there is (Ctrl-C again leaves at once)" in output
    assert "valid, as expected" in output
    assert output.splitlines()[-1] == "seed 7"


def test_the_second_ctrl_c_exits_at_once_with_130_and_kills_the_engine():
    """This engine does not stop on demand."""
    process = start("deaf", results="deaf")
    process.send_signal(signal.SIGINT)
    while "stopping" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert Path("deaf/killed").exists()
    assert "Traceback" not in output


@pytest.fixture
def under_nohup():
    """The tests were started by `nohup`, which has SIGHUP ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("under_nohup")
def test_a_command_that_is_ended_leaves_no_temporary_directory(tmp_path):
    """A closed terminal ends it as Ctrl-C does, also where the command performs nothing."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "fencepost", "selfcheck"]
    process = subprocess.Popen(command, **OUTPUT, env=env, preexec_fn=heed_signals)
    until(lambda: list(tmp_path.glob("fencepost-selfcheck-*")))
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), output  # the second where it came while a data class was made
    assert "Traceback" not in output
    assert list(tmp_path.glob("fencepost-*")) == []


@pytest.mark.parametrize("words", [["plugins"], ["plugins", "kill", "--json"]])
def test_a_command_whose_output_nobody_reads_leaves_without_a_verdict(words):
    """As `fencepost check ... | head -1`: libraries leave with 1 then, which is a verdict."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fencepost", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_what_no_handler_catches_is_no_verdict():
    """Python's own exit code for it, 1, is that of `invalid`."""
    program = "from fencepost.harness.cli import main\ndef command_line(words): raise GeneratorExit('at once')\n"
    program += "main.command_line = command_line\nmain.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "GeneratorExit: at once" in done.stderr) == (255, True), done.stderr


def test_sigterm_kills_the_engine():
    process = start("deaf", results="deaf")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert Path("deaf/killed").exists()


def test_a_campaign_stopped_by_ctrl_c_prints_how_many_runs_were_not_performed():
    Path("night.toml").write_text(
        '[defaults]\ncluster.kind = "attic"\nworkload.kind = "letters"\nclient.kind = "pigeon"\n'
        '[[test]]\nname = "endless"\n[[test]]\nname = "valid"\n'
    )
    argv = [*FAKE, "campaign", "night.toml"]
    process = subprocess.Popen(argv, **OUTPUT, start_new_session=True, preexec_fn=heed_signals)
    while "25 of 30 s" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "stopped: 1 of 2 runs not performed" in output


def test_on_a_terminal_the_progress_is_live_and_the_cursor_is_restored():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    argv = [*FAKE, *RUN, "--name", "valid", "--seed", "7"]
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True)
    os.close(theirs)
    output = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        output += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0
    text = output.decode()
    assert "valid  (1 of 1)  seed 7" in text
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "seed 7" in text.splitlines()[-1]


def test_help_of_every_command_imports_nothing_heavy():
    """Spark, Arrow and the Kafka client take longer to import than anybody waits for help."""
    program = (
        "import sys\nfrom fencepost.harness.cli import main as cli\n"
        "for command in cli.COMMANDS:\n    try:\n        cli.main([command, '--help'])\n    except SystemExit:\n        pass\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'confluent_kafka', 'networkx'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.count("Usage: fencepost") == len(main.COMMANDS)
    assert output.stdout.splitlines()[-1] == "[]"
