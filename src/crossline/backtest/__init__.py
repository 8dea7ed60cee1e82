"""Backtest and comparison over history."""
