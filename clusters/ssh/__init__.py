"""The `ssh` cluster: brokers on any Linux hosts that can be reached by ssh.

`provider` is the plug-in, `options` its options, `host` one connection, `install` copies to a host what it needs, `remote` is the
program that runs there (the watcher, its rules, its lease), `watcher_client` sends requests to a watcher, `network` has the
packet rules of all hosts, `cluster` is the running cluster.
"""
