"""What can be said of one alert from its records: the window as a timeline, its figures, what would not have fired.

All of it is values. The engine judges (``runner.py``); nothing here recomputes a figure.
"""
