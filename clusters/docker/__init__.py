"""The `docker` cluster: every node is a container, beside a helper container that holds its address and its packet rules.

`provider` is the plug-in, `options` its options, `images` finds and builds images, `host_python` mounts this machine's Python
into containers, `container` is one container and its streams, `helper_agent` runs in a helper, `network` is all helpers together,
`cluster` the running cluster; `init` and `leftovers` clean up when a process dies.
"""
