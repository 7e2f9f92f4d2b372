"""The `external` cluster: brokers that fencepost does not run, reached by their bootstrap servers.

`provider` is the plug-in, `options` its options, `connection` the admin client; `metadata`, `placement_admin`, `admin` and
`roles` are the requests to the cluster, `cluster` is the cluster during a run.
"""
