from collections.abc import Iterator
from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams

from .desk import STREAMS, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    folder = tmp_path / "rules"
    folder.mkdir()
    desk = Desk(folder, load_streams(STREAMS, "stream.yaml"))
    yield desk
    desk.log.close()
