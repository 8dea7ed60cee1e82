"""Evaluates thresholds and formulas on figures: hits, emission and evidence; and feature queries."""
