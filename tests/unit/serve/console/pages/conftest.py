"""The console over cases of real alerts; each test has a copy of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cards import cards  # noqa: TID252 - the kit of the console's tests
from ..kit import Room, room  # noqa: TID252 - the kit of the console's tests


@pytest.fixture
def casework(tmp_path: Path) -> Iterator[Room]:
    with room(tmp_path, project=cards()) as made:
        yield made
