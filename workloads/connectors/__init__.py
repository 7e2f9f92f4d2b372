"""Connectors of our own for Kafka Connect, each as sources and as a built jar beside them (README.md)."""
