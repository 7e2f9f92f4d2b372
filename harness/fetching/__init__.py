"""What is fetched once and kept: versions of Kafka, client libraries. Plug-ins may use it, as they may use `harness.api`."""
