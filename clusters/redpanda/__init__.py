"""Redpanda in Docker: the same network, containers and faults as `docker`, another broker (docs/clusters.md)."""
