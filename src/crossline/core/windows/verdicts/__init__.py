"""Figures against lines and formulas: what holds, what emits, and what a hit rests on."""
