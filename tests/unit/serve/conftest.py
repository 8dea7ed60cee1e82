"""What all tests of what serves have: a folder that need not wait for a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from memory import memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory: these tests commit some forty times each."""
    with TemporaryDirectory(prefix="crossline-", dir=memory()) as folder:
        yield Path(folder)
