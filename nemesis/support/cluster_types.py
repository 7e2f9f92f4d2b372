"""Clusters that can be hurt in a certain way, as types for the faults' signatures.

A fault that brings a capability of its own has the type beside it.
"""

from __future__ import annotations

from typing import Protocol

from fencepost.harness.api import (
    Authorizing,
    Cluster,
    ClusterView,
    Corruptible,
    Fillable,
    Interceptable,
    Killable,
    Losable,
    Partitionable,
    Pausable,
    Powered,
    Scalable,
    Skewable,
    Slowable,
    Stoppable,
    Throttleable,
    Upgradable,
    Wipeable,
)


class KillableCluster(Cluster, Killable, Protocol):
    """A cluster whose nodes can be killed and started again."""


class StoppableCluster(Cluster, Killable, Stoppable, Protocol):
    """A cluster whose nodes can be stopped either way and started again."""


class UpgradableCluster(StoppableCluster, Upgradable, Protocol):
    """A cluster whose nodes can be stopped either way and started again as another version."""


class ReplaceableCluster(StoppableCluster, Wipeable, Protocol):
    """A cluster whose brokers can be stopped, emptied and started again."""


class PausableCluster(Cluster, Pausable, Protocol):
    """A cluster whose nodes can be frozen and thawed."""


class PartitionableCluster(Cluster, Partitionable, Protocol):
    """A cluster whose network can be cut, pair by pair."""


class KillablePartitionableCluster(Cluster, Killable, Partitionable, Protocol):
    """A cluster whose nodes can be cut off and killed."""


class LosableCluster(ClusterView, Losable, Protocol):
    """A cluster whose links can lose packets."""


class SlowableCluster(ClusterView, Slowable, Protocol):
    """A cluster whose links can have latency and a limited bandwidth."""


class CorruptibleCluster(ClusterView, Corruptible, Protocol):
    """A cluster whose brokers' files can be damaged."""


class PoweredCluster(ClusterView, Powered, Protocol):
    """A cluster whose nodes can lose their power."""


class FillableCluster(Cluster, Fillable, Protocol):
    """A cluster whose disks can be filled."""


class ThrottleableCluster(Cluster, Throttleable, Protocol):
    """A cluster whose disks can be slow."""


class InterceptableCluster(ClusterView, Interceptable, Protocol):
    """A cluster with a proxy before each broker."""


class SkewableCluster(Cluster, Skewable, Protocol):
    """A cluster whose clocks can be set."""


class AuthorizingCluster(Cluster, Authorizing, Protocol):
    """A cluster with an authorizer, whose clients can lose rights."""


class ScalableCluster(Cluster, Killable, Scalable, Protocol):
    """A cluster that runs instances of a program, whose number can change."""
