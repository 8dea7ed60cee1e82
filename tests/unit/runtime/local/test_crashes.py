"""A process that judges and is ended by a fault in compiled code says where it was."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.local.crashes import CALLS_MAX, note_crashes, take_crash
from crossline.runtime.local.pool import Pool
from crossline.runtime.stages.rows import ArrowBatches
from crossline.runtime.stages.stages import Stage
from crossline.runtime.work.task import Task


def fault() -> None:
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def deep(left: int = 3 * CALLS_MAX) -> None:
    deep(left - 1) if left else fault()


@dataclass(frozen=True, slots=True)
class Crashing:
    """Crashes in process 1; the other has no results."""

    what: Callable[[], None]

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        if task.partition == 1:
            self.what()
        list(batches)
        yield from ()


def run_with(folder: Path, what: Callable[[], None]) -> None:
    with Pool([Stage("crash", Crashing(what), by_shard=False)], 2, folder) as pool:
        list(pool.run([[[pa.record_batch({"number": [1]})]]]))


@pytest.mark.parametrize(
    ("what", "code", "called"),
    [
        (fault, "-11: Segmentation fault", ["fault", "__call__"]),
        (abort, "-6: Aborted", ["abort", "__call__"]),
        (deep, "-11: Segmentation fault", ["fault", *["deep"] * (CALLS_MAX - 2)]),
    ],
)
def test_a_process_that_crashed_says_where(
    tmp_path: Path, what: Callable[[], None], code: str, called: list[str]
) -> None:
    with pytest.raises(PermanentError) as caught:
        run_with(tmp_path, what)
    shown, *calls = str(caught.value).splitlines()
    assert shown == f"a process that judges ended (exit code {code}); it was in"
    assert len(calls) <= CALLS_MAX
    found = re.findall(r'^  File ".*/test_crashes\.py", line \d+ in (\w+)$', "\n".join(calls), re.MULTILINE)
    assert found == called
    assert list(tmp_path.glob("crash-*")) == []


def test_where_it_was_is_unknown_of_one_that_ended_before_it_noted_anything(tmp_path: Path) -> None:
    assert take_crash(tmp_path / "crash-0") == ""


def test_a_process_that_goes_on_has_not_crashed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        note_crashes(tmp_path / "crash-0")
        os._exit(0)
    os.waitpid(child, 0)
    assert take_crash(tmp_path / "crash-0") == ""
    assert list(tmp_path.iterdir()) == []
