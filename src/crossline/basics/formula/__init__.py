"""Formulas over fields and figures: a typed tree, and what evaluates it over columns or over one record."""
