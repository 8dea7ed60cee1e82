"""Measurements: ``python -m bench`` runs all, ``python -m bench.NAME`` one. Each prints one table and writes JSON."""
