"""The cache of what is fetched once: versions of Kafka, client libraries. Plug-ins may use it, as they may use `harness.api`."""
