"""Each row once: over kills at every step, writers side by side, compaction and expiry beside them."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.lake.maintenance.compaction import compact
from crossline.lake.maintenance.expiry import delete_orphans, expire
from crossline.lake.tables.lake_table import LakeTable, Mark
from crossline.lake.writing.writer import LakeWriter
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, alert, payment

LATER_MS = START_MS + 400 * DAY_MS
STEPS = ("records_payments", "alerts", "watermark", "delete")


class KilledError(Exception):
    """The writer's end, here."""


def killed_at(step: str | None) -> Callable[[str], None]:
    def before(name: str) -> None:
        if name == step:
            raise KilledError(step)

    return before


def write(writer: LakeWriter, step: str | None) -> None:
    writer.before_step = killed_at(step)
    with suppress(KilledError):
        writer.write_next()


def check(pipeline: SpooledPipeline) -> None:
    """What is in the tables is what was given."""
    reader = pipeline.reader()
    rows = reader.records("payments").to_pylist()
    expected = [(number, each["id"], each["cents"]) for number, batch in enumerate(pipeline.given) for each in batch]
    assert sorted((row["_batch"], row["_record_id"], row["cents"]) for row in rows) == sorted(expected)
    alerts = Counter(reader.rows("alerts").column("alert_id").to_pylist())
    assert alerts == Counter(f"alert-{number}" for number in range(len(pipeline.given)))


actions = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 4)),
        st.tuples(st.just("write"), st.integers(0, 1), st.sampled_from([*STEPS, None])),
        st.tuples(st.just("compact")),
        st.tuples(st.just("expire")),
        st.tuples(st.just("restart"), st.integers(0, 1)),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=12)
@given(actions, st.lists(st.integers(-3, 3), min_size=8, max_size=8))
def test_whatever_happens_each_row_is_there_once(made: list[tuple[Any, ...]], days: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_writers:
        pipeline = SpooledPipeline(Path(folder))
        writers = [open_writers.enter_context(pipeline.writer()) for _ in range(2)]
        count = 0
        for action in made:
            match action:
                case ("batch", int(records)):
                    count += 1
                    batch = [
                        payment(100 * count + n, START_MS + days[(count + n) % 8] * DAY_MS // 2) for n in range(records)
                    ]
                    number = len(pipeline.given)
                    pipeline.batch(batch, alerts=[alert(number)], positions=[("x", number)])
                case ("write", int(who), step):
                    write(writers[who], step)
                case ("compact",):
                    for table in pipeline.reader().tables():
                        compact(table, LATER_MS)
                case ("expire",):
                    for table in pipeline.reader().tables():
                        expire(table, LATER_MS, 2, read_ms=0)
                case ("restart", int(who)):
                    writers[who] = open_writers.enter_context(pipeline.writer())
        pipeline.write_all()
        check(pipeline)


def test_writers_at_the_same_time_append_each_batch_once(tmp_path: Path) -> None:
    """Four threads write the same batches, each with its own connection, while tables are compacted."""
    pipeline = SpooledPipeline(tmp_path)
    for number in range(12):
        pipeline.batch([payment(number)], alerts=[alert(number)], positions=[("x", number)])
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with pipeline.writer() as writer:
                writer.slice_bytes = 1
                while writer.write_next() is not None:
                    pass
        except BaseException as error:  # noqa: BLE001 - for the thread that started this one
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for table in pipeline.reader().tables():
            compact(table, LATER_MS)
    for thread in threads:
        thread.join()
    assert failures == []
    check(pipeline)


def test_files_of_a_commit_that_failed_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer's commit comes between the files of this one and its commit."""
    pipeline = SpooledPipeline(tmp_path)
    pipeline.batch([payment(1)], alerts=[alert(0)], positions=[("x", 0)])
    original = LakeTable._commit
    calls: list[str] = []

    def meets_another(table: LakeTable, files: list[str], mark: Mark | None) -> None:
        calls.append(table.layout.name)
        if calls.count(table.layout.name) == 1 and table.layout.name == "records_payments":
            pipeline.write_all()
        original(table, files, mark)

    with pipeline.writer() as writer:
        monkeypatch.setattr(LakeTable, "_commit", meets_another)
        writer.write_next()
    check(pipeline)
    for table in pipeline.reader().tables():
        assert delete_orphans(table, LATER_MS, older_ms=0) == 0, table.layout.name
