"""The copy of a checkpoint on a real object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.serve.replica.conftest import BURST, Asks, snapshot_of

from crossline.io.feed.files import batches_in
from crossline.io.objects.file_stores import file_store
from crossline.io.objects.location import under
from crossline.runtime.snapshot.spark_log import last_committed
from crossline.runtime.state_log import cache as caching
from crossline.serve.remote.checkpoint_copy import CheckpointCopy

from .stored import StoredPipeline
from .test_copy import sizes, state_at

if TYPE_CHECKING:
    from dev.services.s3 import LocalS3


def test_batch_by_batch(s3_server: LocalS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    caching._CACHE.clear()
    uri = f"s3://{s3_server.bucket}/{tmp_path.name}/checkpoint"
    store, asks, here = file_store(uri), Asks(), tmp_path / "here"
    here.mkdir()
    stored = StoredPipeline(tmp_path / "driver", store, under(uri, "state"), snapshot_of(BURST))
    copy = CheckpointCopy(file_store(uri), here, uri)
    for batch in range(18):  # beyond a look at all segments
        stored.batch([each.raw for each in asks.records(2)])
        if batch != 4:
            assert copy.look()
            assert (copy.batch, last_committed(str(here))) == (batch, batch)
    assert batches_in(here / "feed") == list(range(18))
    assert sizes(state_at(here / "state", here, 17)) == sizes(stored_state(uri, here))
    caching._CACHE.clear()


def stored_state(uri: str, here: Path) -> dict[int, object]:
    return state_at(under(uri, "state"), here, 17)  # type: ignore[arg-type,return-value]
