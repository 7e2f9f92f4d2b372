"""The `docker` cluster: every node is a container beside a helper that holds its address and cuts its packets.

Where to look: `provider` the plug-in and its options, `images` what containers are made of, `host` how this machine's Python is
shown to containers, `container` one container and its streams, `agent` what runs in a helper, `network` all helpers together,
`cluster` the running cluster, `init` and `leftovers` what is done when somebody dies.
"""
