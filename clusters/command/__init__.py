"""The `command` cluster: any broker that speaks Kafka's protocol, by its command line and settings (docs/clusters.md).

`template` fills placeholders, `options` are the options, `provider` is the plug-in, `cluster` is the running cluster.
"""
