"""Gaps of rules in the lake: their report, and how they are filled."""
