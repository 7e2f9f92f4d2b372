"""What proxies recorded of clients' requests (docs/wire.md), as a history: transactions, sends and polls."""
