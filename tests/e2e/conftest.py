"""PySpark closes the socket of each collected result only when it is collected as garbage; that is no fault of ours."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <socket\.socket fd=\d+, family=1,:ResourceWarning")
