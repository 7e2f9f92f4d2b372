"""Plug-ins for fencepost: a fault, a workload, a check and a cluster."""
