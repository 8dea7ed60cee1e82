from collections.abc import Iterator
from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams

from .harness import STREAMS, Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    folder = tmp_path / "rules"
    folder.mkdir()
    harness = Harness(folder, load_streams(STREAMS, "stream.yaml"))
    yield harness
    harness.log.close()
