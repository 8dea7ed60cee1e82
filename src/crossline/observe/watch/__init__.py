"""Watching a running pipeline: figures for Prometheus, and whether it lives and keeps up."""
