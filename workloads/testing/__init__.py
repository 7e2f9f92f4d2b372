"""For testing workloads without Kafka: a client that plays a script."""

from fencepost.workloads.testing.fake_client import FakeClient, error, perform, planned

__all__ = ["FakeClient", "error", "perform", "planned"]
