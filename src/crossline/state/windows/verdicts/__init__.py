"""Figures against lines and formulas: what holds, what emits, what a hit rests on; and feature queries."""
