"""The host of the faults on a fake cluster under a fake clock: what a schedule leads to, and what is written of it."""

import json
from functools import partial

from fencepost.harness.api.plans import Budget, Injection
from fencepost.harness.perform.fault_runner import FaultRunner
from fencepost.nemesis.cut_clients import CutClients
from fencepost.nemesis.halves import Halves
from fencepost.nemesis.isolate import Isolate
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.link_flap import LinkFlap
from fencepost.nemesis.pause import Pause
from fencepost.nemesis.testing import FakeClock, FakeCluster

S = 1_000_000_000


T0 = 100 * S


FREE = Budget(keep_quorum=False)


KINDS = {"kill": Kill, "pause": Pause, "isolate": Isolate, "halves": Halves, "cut-clients": CutClients}


KINDS["link-flap"] = partial(LinkFlap, down_s=0, up_s=0)  # it sleeps in earnest


def planned(id_, at_s, kind="pause", lasts_s=4.0, lane="main", **options):
    return Injection(id=id_, at_s=at_s, lasts_s=lasts_s, kind=kind, options=options, lane=lane, seed=id_)


def known(injection):
    return KINDS[injection.kind](**injection.options)


class Stage:
    """A fault runner on a fake cluster under a fake clock, and what it wrote."""

    def __init__(self, *schedule, make=known, cluster=None, **host):
        self.cluster, self.clock, self.lines = cluster or FakeCluster(), FakeClock(T0), []
        self.runner = FaultRunner(self.cluster, schedule, make, self.write, self.clock, **host)
        self.running = None

    def write(self, line):
        json.dumps(line)
        self.lines.append(line)

    def play(self, until_s=None):
        self.running = self.running or list(self.runner.timelines(T0).values())
        self.clock.play(self.running, None if until_s is None else T0 + round(until_s * S))
        return self.lines

    def last(self):
        """The line of each fault that counts: the later one replaces the earlier."""
        return {line["id"]: line for line in self.lines}

    def last_after_play(self):
        self.play()
        return list(self.last().values())
