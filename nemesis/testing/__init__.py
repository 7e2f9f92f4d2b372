"""For testing faults and schedules in milliseconds: a cluster in memory, and a clock that tests move."""

from fencepost.nemesis.testing.fake_cluster import FakeClock, FakeCluster

__all__ = ["FakeClock", "FakeCluster"]
