"""State servers at a home of their own, a log of records, and what the naive twin finds in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.project import from_twin
from e2e.state_server_homes import Home
from e2e.traffic import OF_RECORDS, Record, expected, records


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Home(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return records(120, seed=12)


@pytest.fixture(scope="module")
def twin(log: list[Record]) -> dict[str, tuple[Any, ...]]:
    return from_twin(expected(OF_RECORDS, log))
