"""Each example that is drawn has a folder of its own, and pipelines that commit each batch there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from crossline.state.retraction import replays
from memory import memory


@pytest.fixture(scope="module", autouse=True)
def in_memory() -> Iterator[None]:
    """Temporary folders are made in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", memory())
        yield


@pytest.fixture(scope="module", autouse=True)
def judged_once() -> Iterator[None]:
    """Records out of order are judged at once wherever no verdict can change, be they as few as here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replays, "LEAST", 1)
        yield
