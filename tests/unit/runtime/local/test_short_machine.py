"""A machine that is short of memory or of disk is told as that, and not as a fault of ours."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.local.pool import Dealt, Pool
from crossline.runtime.local.worker import read_rows, write_rows
from crossline.runtime.stages.rows import OUT, ArrowBatches, rows_of
from crossline.runtime.stages.stages import Stage
from crossline.runtime.work.task import Task

NUMBERS = pa.record_batch({"number": range(10_000)})


def run_with(folder: Path, trouble: Callable[[], object]) -> None:
    """A process whose step meets ``trouble`` in the midst of a batch."""

    def step(_: Task, batches: ArrowBatches) -> ArrowBatches:
        for _batch in batches:
            trouble()
            yield rows_of([(OUT, 0, "way", b"")])

    def batches() -> Iterator[Dealt]:
        yield [[NUMBERS]]

    with Pool([Stage("read", step, by_shard=False)], 1, folder) as pool:
        list(pool.run(batches()))


def too_large() -> None:
    np.empty(2**60, np.uint8)


def too_large_for_arrow() -> None:
    raise pa.ArrowMemoryError("malloc of size 64 failed")


@pytest.mark.parametrize(
    ("trouble", "text"), [(too_large, "Unable to allocate 1.00 EiB"), (too_large_for_arrow, "malloc of size 64 failed")]
)
def test_that_memory_is_short_is_told_by_its_text(tmp_path: Path, trouble: Callable[[], object], text: str) -> None:
    with pytest.raises(MemoryError) as caught:
        run_with(tmp_path, trouble)
    assert type(caught.value) is MemoryError
    assert str(caught.value).startswith(text)


def test_a_folder_that_somebody_cleared_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    with pytest.raises(PermanentError) as caught:
        run_with(folder, lambda: shutil.rmtree(folder))
    assert str(caught.value) == f"{folder}: rows between processes cannot be kept there: {os.strerror(errno.ENOENT)}"


def test_a_full_disk_is_named() -> None:
    with pytest.raises(PermanentError, match=f"^/dev: rows .* kept there: {os.strerror(errno.ENOSPC)}$"):
        write_rows(Path("/dev/full"), [NUMBERS])


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    written = write_rows(tmp_path / os.fsdecode(b"\xff"), [NUMBERS])
    assert read_rows(written) == [NUMBERS]
