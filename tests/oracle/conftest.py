"""Each example that is drawn has a folder of its own, and pipelines that commit each batch there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from memory import memory


@pytest.fixture(scope="module", autouse=True)
def in_memory() -> Iterator[None]:
    """Temporary folders are made in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", memory())
        yield
