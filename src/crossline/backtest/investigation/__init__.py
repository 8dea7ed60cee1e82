"""Investigation of one alert from its records: its window as a timeline, its figures, and counterfactuals.

All results are values. The engine judges (``variant_runner.py``); nothing here recomputes a figure.
"""
