"""The `local` cluster: brokers as JVMs of this machine, each in a network namespace of its own.

`provider` is the plug-in, `options` its options, `sandbox` and `init` make the namespaces that everything runs in, `network` has
the nodes' namespaces and packet rules, `class_archive` makes brokers start sooner, `cluster` is the running cluster.
"""

from clusters.local.provider import Local

__all__ = ["Local"]
