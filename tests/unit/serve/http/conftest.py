from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serve.http.kit import Client, example, project, served


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Client]:
    """The API over the example, which no test changes."""
    with served(example(), tmp_path / "serve") as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example."""
    return project(tmp_path)


@pytest.fixture
def writing(folder: Path, tmp_path: Path) -> Iterator[Client]:
    """The API over a copy of the example."""
    with served(folder, tmp_path / "serve") as client:
        yield client
