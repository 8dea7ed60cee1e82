"""Processes of this machine as a runner: the order of what comes out, who gets what, and that no process is left."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from crossline.basics.errors import CrosslineError, PermanentError, RetryableError, StoppedError, UsageError
from crossline.basics.texts.problems import Problem, RefusedError
from crossline.runtime.changes.backfill import BackfillError
from crossline.runtime.local import pool as pool_module
from crossline.runtime.local.pool import Dealt, Pool
from crossline.runtime.local.worker import Worker
from crossline.runtime.stages.rows import OUT, ArrowBatches, rows_of
from crossline.runtime.stages.stages import Stage, StageFunction
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from e2e.ended import still_running

SHARDS = 7
BATCHES = 12
GONE_S = 300.0

Numbers = Sequence[Sequence[int]]  # of a batch, what each process reads


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []  # those of Spark, in the same session of tests, are none of them


@dataclass(slots=True)
class Walk:
    """Moves each row on to another shard and the next stage, with its way in the body: "shard@process shard@process".

    Raises where a process does not get every batch once and in their order.
    """

    at: int
    last: int
    next_batch: int = 0

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        assert task.batch_id == self.next_batch, f"batch {task.batch_id} after {self.next_batch - 1}"
        self.next_batch += 1
        if (task.batch_id + task.partition) % 3 == 0:
            sum(range(200_000))  # now one process is behind, now another
        for batch in batches:
            yield rows_of([self._moved(task, *row) for row in rows_in(batch)])

    def _moved(self, task: Task, stage: int, shard: int, body: bytes) -> tuple[int, int, str, bytes]:
        assert stage == self.at
        way = body + f" {shard}@{task.partition}".encode()
        return (OUT if self.at == self.last else self.at + 1, derived(shard), "way", way)


def rows_in(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
    yield from zip(*(batch.column(name).to_pylist() for name in ("stage", "shard", "body")), strict=True)


def derived(shard: int) -> int:
    return (3 * shard + 1) % SHARDS


def read(task: Task, batches: ArrowBatches) -> ArrowBatches:
    """Each number to its shard; what ends in 9 goes to the last stage alone, what is negative to no shard."""
    for batch in batches:
        for number in batch.column("number").to_pylist():
            stage = OUT if number < 0 else 2 if number % 10 == 9 else 1
            yield rows_of([(stage, number % SHARDS, "way", f"{task.batch_id}:{number}".encode())])


def walking(by_shard: int) -> list[Stage]:
    return [
        Stage("read", read, by_shard=False),
        *(Stage(f"walk {at}", Walk(at, by_shard)) for at in range(1, by_shard + 1)),
    ]


def way_of(batch_id: int, number: int, by_shard: int, count: int) -> str:
    """The expected path of a number, computed without the pool."""
    text, shard = f"{batch_id}:{number}", number % SHARDS
    if number < 0:
        return text
    for _ in range(2 if number % 10 == 9 else 1, by_shard + 1):
        text += f" {shard}@{shard % count}"
        shard = derived(shard)
    return text


def dealt(numbers: Numbers) -> Dealt:
    """Two batches for each process that has more than one number."""
    return [[pa.record_batch({"number": part}) for part in (mine[:1], mine[1:]) if part] for mine in numbers]


def given(batch_id: int, count: int) -> Numbers:
    """Numbers for each process; in some batches for the first alone, in some for none."""
    if batch_id == BATCHES - 2:
        return []
    processes = 1 if batch_id % 4 == 3 else count
    return [
        [-1, *range(100 * batch_id + 20 * each, 100 * batch_id + 20 * each + 3 * (each + 1), 1), 9]
        for each in range(processes)
    ]


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("by_shard", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_outcomes_come_in_the_order_of_batches_and_rows_to_the_process_of_their_shard(
    tmp_path: Path, count: int, by_shard: int, anywhere: bool
) -> None:
    batches = [given(batch_id, count) for batch_id in range(BATCHES)]
    with Pool(walking(by_shard), count, tmp_path, anywhere=anywhere) as pool:
        found = list(pool.run(dealt(each) for each in batches))
    assert [sorted(body.decode() for _, body in outcome) for outcome in found] == [
        sorted(way_of(batch_id, number, by_shard, count) for mine in numbers for number in mine)
        for batch_id, numbers in enumerate(batches)
    ]
    assert {kind for outcome in found for kind, _ in outcome} == {"way"}
    assert left_in(tmp_path) == []


def test_no_batches_have_no_outcomes(tmp_path: Path) -> None:
    with Pool(walking(2), 2, tmp_path) as pool:
        assert list(pool.run([])) == []
    assert left_in(tmp_path) == []


def test_no_more_than_a_few_batches_are_read_ahead(tmp_path: Path) -> None:
    asked: list[int] = []

    def batches() -> Iterator[Dealt]:
        for batch_id in range(BATCHES):
            asked.append(batch_id)
            yield dealt([[batch_id]])

    with Pool(walking(2), 2, tmp_path) as pool:
        for done, _ in enumerate(pool.run(batches())):
            assert len(asked) <= done + pool_module.AHEAD


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def numbered() -> Iterator[Dealt]:
    """Batches without an end, each with something for two processes."""
    batch_id = 0
    while True:
        yield dealt([[10 * batch_id], [10 * batch_id + 1]])
        batch_id += 1


def run_with(folder: Path, step: StageFunction, stop: threading.Event | None = None) -> list[Rows]:
    """Two processes with ``step`` as the second stage, over batches without an end; what came out before it raised."""
    found: list[Rows] = []
    stages = [Stage("read", read, by_shard=False), Stage("odd", step)]
    with Pool(stages, 2, folder, stop) as pool:
        found.extend(pool.run(numbered()))
    return found


def passing(_: Task, batches: ArrowBatches) -> ArrowBatches:
    for batch in batches:
        yield rows_of([(OUT, 0, "way", body) for _, _, body in rows_in(batch)])


@dataclass(frozen=True, slots=True)
class Trouble:
    """Does ``what`` in process 1 at batch 4, and passes on what it gets until then."""

    what: Callable[[], None]

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        if task.batch_id == 4 and task.partition == 1:
            self.what()
        yield from passing(task, batches)


def raising(error: Exception) -> Trouble:
    def what() -> None:
        raise error

    return Trouble(what)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    while True:
        signal.pause()


class OddError(UsageError):
    """Takes what is not in its text, and so cannot be made again from it."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} is wrong: found {number}")


def holding(error: CrosslineError) -> CrosslineError:
    """With something that cannot leave its process."""
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    return error


PROBLEM = Problem("rules.yaml", 3, "[0].window", "window: 5x", "5x", "a duration such as 30s")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UsageError("column amount: found text; expected numbers"), UsageError),
        (RetryableError("a.jsonl: cannot be read: Stale file handle", 500), RetryableError),
        (RefusedError([PROBLEM]), RefusedError),
        (OddError("a.jsonl", 7), UsageError),
        (BackfillError("the past cannot be read", {}), CrosslineError),
        (holding(PermanentError("the disk is gone")), PermanentError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_of_ours_is_raised_with_its_text(
    tmp_path: Path, error: CrosslineError, kind: type[CrosslineError]
) -> None:
    with pytest.raises(kind) as caught:
        run_with(tmp_path, raising(error))
    assert str(caught.value) == str(error)
    assert caught.value.exit_code == error.exit_code


def test_what_an_error_says_besides_its_text_comes_along(tmp_path: Path) -> None:
    with pytest.raises(RetryableError) as caught:
        run_with(tmp_path, raising(RetryableError("not now", 500)))
    assert caught.value.retry_after_ms == 500
    with pytest.raises(RefusedError) as refused:
        run_with(tmp_path, raising(RefusedError([PROBLEM])))
    assert refused.value.problems == (PROBLEM,)


@pytest.mark.parametrize("error", [ValueError("no such column"), EOFError("no such column"), OSError("no such column")])
def test_any_other_exception_is_reported_with_its_traceback(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(RuntimeError, match=rf"(?s)Traceback.*test_pool\.py.*{type(error).__name__}: no such column"):
        run_with(tmp_path, raising(error))


def test_a_process_that_is_killed_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"a process that judges ended \(exit code -9: Killed\)"):
        run_with(tmp_path, Trouble(die))


def test_a_process_killed_while_idle_ends_the_run(tmp_path: Path) -> None:
    stages = [Stage("read", read, by_shard=False), Stage("pass", passing)]
    with Pool(stages, 2, tmp_path) as pool:
        outcomes = pool.run(numbered())
        next(outcomes)
        victim = psutil.Process(multiprocessing.active_children()[-1].pid)
        victim.kill()
        os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)  # its exit code is left for the pool
        with pytest.raises(PermanentError, match=r"a process that judges ended \(exit code -9: Killed\)"):
            list(outcomes)


class _Ours:
    """As a client of a broker: to be destroyed by the process that made it. A ring, so that it is garbage at once."""

    def __init__(self, log_file: Path) -> None:
        self.log_file, self.ring = log_file, self

    def __del__(self) -> None:
        with self.log_file.open("a") as file:
            file.write(f"{os.getpid()}\n")


def test_garbage_is_destroyed_by_the_process_that_made_it(tmp_path: Path) -> None:
    text = tmp_path / "log"
    gc.collect()
    gc.disable()  # none is found by chance between here and the fork
    try:
        _Ours(text)
        with Pool([Stage("read", collecting, by_shard=False)], 2, tmp_path) as pool:
            list(pool.run([dealt([[1], [2]])]))
        gc.collect()
    finally:
        gc.enable()
    assert text.read_text().split() == [str(os.getpid())]


def collecting(_: Task, batches: ArrowBatches) -> ArrowBatches:
    gc.collect()
    yield from read(_, batches)


def test_signals_to_all_processes_are_for_the_first_alone(tmp_path: Path) -> None:
    batches = [dealt([[10 * each], [10 * each + 1]]) for each in range(BATCHES)]
    with Pool(walking(2), 2, tmp_path) as pool:
        outcomes = pool.run(batches)
        first = next(outcomes)
        for child in map(psutil.Process, (each.pid for each in multiprocessing.active_children())):
            child.send_signal(signal.SIGINT)
            child.send_signal(signal.SIGTERM)
        assert len([first, *outcomes]) == BATCHES


def test_a_stop_ends_a_run_in_the_midst(tmp_path: Path) -> None:
    stop = threading.Event()

    def batches() -> Iterator[Dealt]:
        for number, each in enumerate(numbered()):
            if number == 5:  # while process 1 hangs in batch 4
                stop.set()
            yield each

    stages = [Stage("read", read, by_shard=False), Stage("hang", Trouble(hang))]
    found: list[Rows] = []
    with (
        pytest.raises(StoppedError, match="stopped before all was judged"),
        Pool(stages, 2, tmp_path, stop) as pool,
    ):
        found.extend(pool.run(batches()))


def test_an_exception_of_the_input_or_output_leaves_no_process(tmp_path: Path) -> None:
    def batches() -> Iterator[Dealt]:
        yield dealt([[1]])
        raise LookupError("from")

    with pytest.raises(LookupError, match="from"), Pool(walking(2), 3, tmp_path) as pool:
        list(pool.run(batches()))

    def deliver(_: Rows) -> None:
        raise LookupError("to")

    with pytest.raises(LookupError, match="to"), Pool(walking(2), 3, tmp_path) as pool:
        list(map(deliver, pool.run(numbered())))


def test_a_reader_that_stops_early_leaves_no_process(tmp_path: Path) -> None:
    with Pool(walking(2), 3, tmp_path) as pool:
        next(pool.run(numbered()))


def test_an_interrupt_while_processes_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def worker(stages: Sequence[Stage], number: int, count: int, folder: Path) -> Worker:
        if number == 1:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # it waits until this thread lets it in
        return Worker(stages, number, count, folder)

    monkeypatch.setattr(pool_module, "Worker", worker)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's, where a session is open, is another
    try:
        with pytest.raises(KeyboardInterrupt), Pool(walking(2), 3, tmp_path):
            pytest.fail("it was interrupted")
    finally:
        signal.signal(signal.SIGINT, before)


MAIN = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from crossline.runtime.stages.stages import Stage
from crossline.runtime.stages.rows import OUT, rows_of
from crossline.runtime.local.pool import Pool

def step(task, batches):
    os.write(1, b"%d %d\\n" % (task.partition, os.getpid()))
    while task.partition == 0:
        signal.pause()
    yield rows_of([])

with Pool([Stage("hang", step, by_shard=False)], 2, Path(sys.argv[1])) as pool:
    list(pool.run([[[pa.record_batch({"number": [1]})]]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """One of them at work, the other waiting for work."""
    main = subprocess.Popen([sys.executable, "-c", MAIN, str(tmp_path)], stdout=subprocess.PIPE)
    assert main.stdout is not None
    workers = [psutil.Process(int(main.stdout.readline().split()[1])) for _ in range(2)]
    main.kill()
    main.communicate(timeout=GONE_S)  # the output ends when the last who has it is gone
    assert still_running(workers, GONE_S) == []
