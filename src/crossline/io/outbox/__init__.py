"""Outbox of asynchronous sinks: deliveries are stored on disk until the sink has them."""
