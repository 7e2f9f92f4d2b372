"""The `local` cluster: brokers as JVMs of this machine, each in a network namespace of its own.

`provider` is the plug-in, `options` its options, `sandbox` and `init` make the namespaces that everything runs in, `network` has
the nodes' namespaces and packet rules, `class_archive` makes brokers start sooner, `sandbox_cluster` is the base class of
clusters of processes in a sandbox, `cluster` is the running cluster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.clusters.local.provider import Local

__all__ = ["Local"]


def __getattr__(name: str) -> Any:
    """`Local`, imported on first use: the first process of a sandbox (`init`) starts four times as fast without."""
    if name == "Local":
        from fencepost.clusters.local.provider import Local

        return Local
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
