"""Clusters that can be hurt in a certain way, as types for the faults' signatures."""

from __future__ import annotations

from typing import Protocol

from harness.api import Cluster, Killable, Losable, Partitionable, Pausable, Stoppable, Upgradable


class KillableCluster(Cluster, Killable, Protocol):
    """A cluster whose nodes can be killed and started again."""


class StoppableCluster(Cluster, Stoppable, Protocol):
    """A cluster whose nodes can be stopped politely and started again."""


class UpgradableCluster(Cluster, Killable, Stoppable, Upgradable, Protocol):
    """A cluster whose nodes can be stopped either way and started again as another version."""


class PausableCluster(Cluster, Pausable, Protocol):
    """A cluster whose nodes can be frozen and thawed."""


class PartitionableCluster(Cluster, Partitionable, Protocol):
    """A cluster whose network can be cut, pair by pair."""


class StrandableCluster(Cluster, Killable, Partitionable, Protocol):
    """A cluster whose nodes can be cut off and killed."""


class LosableCluster(Cluster, Losable, Protocol):
    """A cluster whose links can lose packets."""
