"""The `external` cluster: brokers that somebody else runs, reached by their bootstrap servers.

Where to look: `provider` the plug-in and its options, `connection` how it is reached, `admin`, `arrangement` and `roles` what is
asked of it, `cluster` the cluster while a run goes on.
"""
