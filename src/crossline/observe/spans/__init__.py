"""OpenTelemetry spans of batches, where a collector is configured."""
