"""Clients in processes of their own (docs/client-drivers.md): the protocol, the processes, the families by version."""
