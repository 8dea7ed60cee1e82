"""The console over cases of real alerts; each test has a copy of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cards import cards
from ..kit import Room, room


@pytest.fixture
def casework(tmp_path: Path) -> Iterator[Room]:
    with room(tmp_path, project=cards()) as made:
        yield made
