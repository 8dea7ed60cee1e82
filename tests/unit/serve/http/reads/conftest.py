"""The API over the example, for tests that only read: made once for those of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.unit.serve.http.kit import Client, example, served

from memory import memory


@pytest.fixture(scope="module")
def reading() -> Iterator[Client]:
    """As that of the folder above. Making the routes takes longer than most of these tests."""
    with (
        TemporaryDirectory(prefix="crossline-", dir=memory()) as folder,
        served(example(), Path(folder) / "serve") as client,
    ):
        yield client
