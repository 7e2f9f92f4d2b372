"""The `ssh` cluster: brokers on any Linux hosts that let us in.

Where to look: `provider` the plug-in and its options, `host` one connection, `install` what is put on a host once, `remote` the
program that runs there (the watcher, its rules, its lease), `watch` our end of a watcher, `network` who can talk to whom,
`cluster` the running cluster.
"""
