"""An engine that performs nothing: what each test comes to is written in its name, so that whole evenings take no time.

Run as a program it is `fencepost` with this engine in place of the real one.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time

from fencepost.harness.api import ClusterError
from fencepost.harness.api.errors import Interrupted, NotBegun
from fencepost.harness.api.evidence import Manifest
from fencepost.harness.cli import console, main
from fencepost.harness.history.run_directory import read_plan, write_manifest, write_plan, write_verdict
from fencepost.harness.memory.known import NOTHING_KNOWN, with_known
from fencepost.harness.memory.remembered import today
from fencepost.harness.runs import store

ANOMALIES = {"torn": "torn-letter", "lost": "lost-letter", "canary": "aborted-read"}


class FakeEngine:
    """`valid`, `torn` (invalid: torn-letter), `lost`, `unknown`, `broken` (no cluster, but a log), `absent` (no cluster), `bug`,
    `endless` (until it is stopped), `early` (stopped before its workload began).

    A name with several, `torn+valid`, comes to each in turn. `canary`: invalid, aborted-read.

    blind: fates whose anomalies are not seen. sentence: of every finding. created: when each run was planned.
    """

    blind: tuple[str, ...] = ()
    created = "2026-11-21T12:00:00Z"
    sentence = "letter 7 lies in two parts"
    acknowledged = ""  # the sentence of a verdict on findings that are known

    def __init__(self, *, results, on_event, master="local[2]", spark_conf=None, known=None):
        self.known = known or NOTHING_KNOWN
        self.results, self.on_event, self.master, self.spark_conf = results, on_event, master, spark_conf
        self.log, self._turn, self._stop = [], {}, threading.Event()

    def start_spark(self, *, warm=True):
        self.log.append("start_spark")

    def prepare(self, test, *, seed, command, round=""):
        run_id = secrets.token_hex(3)
        directory = store.new_run_dir(self.results, test, run_id)
        turn = self._turn[test.name] = self._turn.get(test.name, -1) + 1
        kinds = test.name.partition("[")[0].split("+")
        plan = {"run": run_id, "campaign": test.campaign, "test": test.name, "seed": seed, "created": self.created}
        plan |= {"round": round} if round else {}
        fate = kinds[turn % len(kinds)]
        write_plan(directory, {**plan, "expect": list(test.expect), "command": command, "fate": fate})
        self.log.append(("prepare", test.name, seed))
        return directory

    def perform(self, run_dir):
        fate = read_plan(run_dir)["fate"]
        self.log.append("perform")
        self.pause()
        self.on_event({"event": "phase", "phase": "cluster", "text": "3 brokers"})
        if fate == "absent":
            raise ClusterError("no Java 17 or newer found")
        if fate == "broken":
            log = run_dir / "logs" / "n2" / "server.log"
            log.parent.mkdir(parents=True)
            log.write_text("no memory\n")
            raise ClusterError("n2 did not answer within 60 s; start it again")
        if fate == "early":
            raise NotBegun("stopped before the workload began")
        if fate == "bug":
            raise KeyError("oops")
        self.on_event({"event": "phase", "phase": "workload", "text": "8 writers"})
        for elapsed_s in (1, 9, 11, 25):
            counts = {"ok": elapsed_s * 10, "fail": 0, "info": elapsed_s}
            self.on_event({"event": "progress", "elapsed_s": elapsed_s, "time_s": 30, **counts, "faults": ["pause n2"]})
        if fate in ("endless", "deaf"):
            while not self._stop.wait(0.05):
                """Signals are heard between waits."""
            self.on_event({"event": "phase", "phase": "heal", "text": "healing"})
            if fate == "endless":
                raise Interrupted("stopped on demand")
        self.pause()
        write_manifest(run_dir, Manifest(run=read_plan(run_dir)["run"], slots=0, complete=True, files=()))
        self.pause()

    def judge(self, run, contract=None, checkers=(), last=False, here=False):
        plan = run.plan
        self.log.append(("judge", contract, *checkers))
        anomaly = ANOMALIES.get(plan["fate"]) if plan["fate"] not in self.blind else None
        verdict = "unknown" if plan["fate"] == "unknown" else "invalid" if anomaly else "valid"
        document = {
            "verdict": verdict,
            "reason": "nothing was compared" if verdict == "unknown" else f"it is {verdict}",
            "run": plan["run"],
            "expectation_met": plan["expect"] == [anomaly or verdict],
            "properties": [
                {"name": name, "verdict": "violated" if name == anomaly else "held", "count": int(name == anomaly)}
                for name in ANOMALIES.values()
            ],
            "findings": [{"id": 1, "anomaly": anomaly, "sentence": self.sentence}] if anomaly else [],
            **({"known": self.acknowledged} if self.acknowledged else {}),
            "counts": {"operations": 250},
        }
        if anomaly and not document["expectation_met"]:
            document["findings"] = [{"id": 1, "anomaly": anomaly, "forbidden": True, "sentence": self.sentence}]
            document |= {"unexpected": [{"name": anomaly, "count": 1, "findings": [1]}]}
            document["met_without_unexpected"] = plan["expect"] == ["valid"]
        document = with_known(document, run, self.known, today())
        self.pause()
        write_verdict(run.directory, document)
        self.pause()
        (run.directory / "report.html").write_text("<!doctype html>")
        self.pause()
        return document

    def pause(self):
        """Wait for a moment, in which the process may be killed, where the environment asks for it."""
        time.sleep(float(os.environ.get("FAKE_PAUSE_S", "0")))

    def hold(self, run_dir):
        self.log.append("hold")

    def fetch(self, url, contract):
        self.log.append(("fetch", url, contract))
        directory = store.new_run_dir(self.results, "adopted", secrets.token_hex(3))
        write_plan(directory, {"run": "far", "expect": ["valid"], "fate": "valid"})
        return directory

    def request_stop(self, by):
        self.log.append("request_stop")
        if self.results.name != "deaf":
            self._stop.set()

    def kill(self):
        self.log.append("kill")
        (self.results / "killed").write_text("")

    def close(self):
        self.log.append("close")


if __name__ == "__main__":
    console.engine = lambda results, master, on_event, *_: FakeEngine(results=results, master=master, on_event=on_event)
    main.main(sys.argv[1:])
