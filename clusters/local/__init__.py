"""The `local` cluster: brokers as JVMs of this machine, each in a network namespace of its own.

Where to look: `provider` the plug-in and its options, `sandbox` and `init` the box everything runs in, `network` who can
talk to whom, `jvm` one broker's configuration and command line, `cluster` the running cluster.
"""

from clusters.local.provider import Local

__all__ = ["Local"]
