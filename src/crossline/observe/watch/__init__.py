"""Monitoring of a running pipeline: Prometheus metrics, liveness and readiness."""
