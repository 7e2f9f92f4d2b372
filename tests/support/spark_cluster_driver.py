"""Run as a program by `spark_cluster.Driver`: a session that judges every folder named on standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fatal_check import fatal
from long_histories import judge_as_long

from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.engine.session import start_session
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run, write_verdict

if __name__ == "__main__":
    master, *conf = sys.argv[1:]
    session = start_session(master, conf=dict(text.split("=", 1) for text in conf))
    for line in sys.stdin:
        request = json.loads(line)
        folder = Path(request["folder"])
        more = [fatal(folder, request["ends"], request["times"])] if request["ends"] else []
        with pytest.MonkeyPatch.context() as patch:
            if not request["short"]:
                judge_as_long(patch)
            document = judge(open_run(folder), session, checks=[*installed_checks()[0], *more])
        write_verdict(folder, document)
        print("judged", flush=True)
