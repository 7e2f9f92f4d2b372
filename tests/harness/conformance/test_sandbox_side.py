"""The kit's side in the sandbox: its events and its log hold no secrets."""

from __future__ import annotations

import json
import subprocess
import sys

TALKS = '''
from dataclasses import dataclass
from threading import Thread

from fencepost.harness import secrets
from fencepost.harness.api import ClusterError


@dataclass(frozen=True, kw_only=True)
class Talks:
    """Says its password wherever one can say it."""

    def up(self, run_dir, topics):
        password = secrets.resolve({"sasl.password": "env:KAFKA_PASSWORD"})["sasl.password"]
        print(f"a library says {password}")
        (run_dir / "logs" / "client.log").write_text(f"sasl.password = {password}")
        thread = Thread(target=lambda: {}[password])
        thread.start()
        thread.join()
        raise ClusterError(f"no admin client of {password}")
'''


def test_no_secret_is_in_an_event_or_a_log(tmp_path, monkeypatch):
    """In the event that goes to the terminal and to --json, in what is printed, in a traceback, in a library's log."""
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # as on most machines: prints wait in a buffer
    (tmp_path / "talks.py").write_text(TALKS)
    (tmp_path / "logs").mkdir()
    cluster, workload = {"kind": "talks:Talks", "options": {}}, {"kind": "transactions", "options": {}}
    (tmp_path / "plan.json").write_text(json.dumps({"cluster": cluster, "workload": workload, "topics": {}}))
    argv = [sys.executable, "-m", "fencepost.harness.conformance.sandbox_side", str(tmp_path)]
    with open(tmp_path / "logs" / "kit.log", "ab") as log:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, timeout=60)
    assert done.returncode == 1
    assert {"event": "failed", "text": "no admin client of ***"} in [json.loads(line) for line in done.stdout.splitlines()]
    written = [done.stdout, *(path.read_text() for path in sorted((tmp_path / "logs").iterdir()))]
    assert len(written) == 3
    assert [text for text in written if "hunter2" in text] == []
    assert "a library says ***" in written[2]
    assert "KeyError: '***'" in written[2]
    assert written[1] == "sasl.password = ***"
