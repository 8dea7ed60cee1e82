"""Spans of batches for a collector of OpenTelemetry, where somebody wants them."""
