"""A backtest without Spark: the stages in processes of this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from crossline.backtest.alert_writer import AlertWriter
from crossline.backtest.backtest import BATCH_BYTES, BacktestResult, BacktestSpec, OnBatch
from crossline.backtest.input_batches import BacktestInputs, PinnedInputs
from crossline.basics.errors import StoppedError, UsageError
from crossline.basics.values import Records
from crossline.evaluate.alerts.hits import Hit
from crossline.io.chunks import ReadLimit
from crossline.io.files.log import FileChunks
from crossline.io.sinks.outfile import draft_file, make_folder
from crossline.logs import get_logger
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.local.pool import AHEAD, Dealt, Pool, StopFlag
from crossline.runtime.machine.processors import processors
from crossline.runtime.machine.temporary_folders import own_folder_for, sweep
from crossline.runtime.snapshot.rule_costs import Costs
from crossline.runtime.snapshot.snapshot import HeldSnapshot, PlanSnapshot, SnapshotSource, StaticSnapshot
from crossline.runtime.sources.files import FileInput, chunk_bytes, patterns_of, unended_of
from crossline.runtime.sources.intake import ChunkIntake, ShownIntake, StreamIntake
from crossline.runtime.sources.references import CHUNKS_MAX, chunk_rows, deal_chunks
from crossline.runtime.sources.table_dealing import TableDealer
from crossline.runtime.stages.outcome import Outcome, collect_outcome
from crossline.runtime.stages.stages import Stage, in_one, stages_of
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from crossline.runtime.work.totals import Totals

if TYPE_CHECKING:
    from crossline.backtest.resumable import KeptRun
    from crossline.runtime.stages.decision_stage import Judge

log = get_logger(__name__)
RunBatches = Callable[[Iterable[Dealt], int], Iterator[Rows]]

# For samples. Small, because with ``probing`` each record has an alert for each rule.
SAMPLE_BATCH_BYTES = 1024 * 1024
# Of a batch's lines, for each process: the one that has more to judge reads fewer of them.
PIECES = 2
# Files that are judged in this process: that is done before others are forked and have loaded the same pages.
ALONE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class LocalRun:
    """A run that another thread can stop."""

    running: bool = False
    stopping: StopFlag = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Stop the run. Any thread may call it, and more than once."""
        self.stopping.set()


def backtest(
    judged: BacktestSpec,
    output: Path,
    *,
    decisions: Path | None = None,
    on_batch: OnBatch | None = None,
    on_start: Callable[[LocalRun], None] | None = None,
    processes: int | None = None,
    kept: Path | None = None,
) -> BacktestResult:
    """Run a backtest in local processes.

    Args:
        judged: The rules and their input.
        output: The file of alerts, JSON lines. It is replaced as a whole when the run ends.
        decisions: The file of decisions, likewise; None: no decisions are written.
        on_batch: Called after each batch.
        on_start: Called with the run before it starts, to stop it from another thread.
        processes: The number of processes that judge; by default as many as processors, and none but this one where
            the files are small.
        kept: A folder that keeps the run, so that it goes on there after a stop; None: it begins anew. The caller
            discards it (``resumable.discard``) once the output is of no more use to it.

    Raises:
        StoppedError: it was stopped; ``output`` is unchanged.
        UsageError: an input matches no file, or ``output`` cannot be replaced.
    """
    count = processes or processors()
    make_folder(output)
    sweep()  # temporary folders of killed runs
    run = LocalRun()
    with own_folder_for("backtest") as folder:
        inputs = inputs_of(judged, folder, count, BATCH_BYTES)
        alone = processes is None and kept is None and isinstance(inputs, Inputs) and inputs.size <= ALONE_BYTES
        count = 1 if alone else count
        snapshot = inputs.aligned(judged.snapshot(judged.rules, count))
        if not alone:
            from crossline.runtime.workers.kernel_warmup import warm_for  # noqa: PLC0415 - loads all formats

            warm_for(snapshot.plans())  # compile errors are raised here
        if on_start is not None:
            on_start(run)
        if kept is None:
            return _whole(_Run(snapshot, inputs, folder, count, run, on_batch, alone), output, decisions)
        return _resumed(_Run(snapshot, inputs, folder, count, run, on_batch), judged, output, decisions, kept)


@dataclass(slots=True)
class _Run:
    """What runs: by what, on what, where, in how many processes, who can stop it and who follows it.

    ``alone``: in this process, and ``count`` is 1.
    """

    snapshot: PlanSnapshot
    inputs: BacktestInputs
    folder: Path
    count: int
    life: LocalRun
    on_batch: OnBatch | None
    alone: bool = False


def _whole(run: _Run, output: Path, decisions: Path | None) -> BacktestResult:
    with ExitStack() as made:
        drafts = [made.enter_context(draft_file(path)) for path in (output, decisions) if path is not None]
        writer = AlertWriter(*drafts)
        writer.open()
        try:
            source = HeldSnapshot(run.snapshot)  # compiled here; what is forked has it
            totals = _judged(run, source, MemoryJudge(source), writer, Totals())
        finally:
            writer.close()
    return BacktestResult(output, totals)


def _resumed(run: _Run, judged: BacktestSpec, output: Path, decisions: Path | None, folder: Path) -> BacktestResult:
    """The same where ``folder`` keeps how far it came."""
    from crossline.backtest.resumable import kept_run  # noqa: PLC0415 - it logs the state, as a pipeline does
    from crossline.runtime.workers.state_servers import StateServerJudge  # noqa: PLC0415 - as above

    if not isinstance(run.inputs, PinnedInputs):
        raise UsageError(f"{folder}: only a replay of the lake can be kept")
    with kept_run(folder, run.snapshot, run.count, run.inputs.pin, decisions=decisions is not None) as kept:
        run.count, run.inputs = kept.processes, run.inputs.pinned(kept.cuts, kept.place)
        run.snapshot = judged.snapshot(judged.rules, kept.processes)
        source = StaticSnapshot(run.snapshot.to_json())
        with kept.writer(decisions=decisions is not None) as writer:
            judge = StateServerJudge(source, kept.cache, 1)
            totals = _judged(run, source, judge, writer, kept.totals, kept)
        kept.copy_output(output, decisions)
    return BacktestResult(output, totals)


def _judged(
    run: _Run, source: SnapshotSource, judge: Judge, writer: AlertWriter, totals: Totals, kept: KeptRun | None = None
) -> Totals:
    stages = stages_of(source, run.inputs.intake, judge)
    costs, first = Costs(), 0 if kept is None else kept.batch + 1
    # A run that is kept ends a batch before it begins the next: its states are not further than its output.
    ahead = AHEAD if kept is None else 1
    with _runner(run, stages, ahead) as judged_rows:
        run.life.running = True
        totals.first_s = time.monotonic()
        for number, rows in enumerate(judged_rows(run.inputs.batches(run.count), first), first):
            outcome = collect_outcome(rows, None, unread=True)
            delivery = outcome.delivery("backtest", number)
            writer.deliver(delivery)
            totals.add(delivery)
            totals.cost(costs.of(run.snapshot, outcome.costs))
            totals.share = run.inputs.share(number)
            if kept is not None and isinstance(run.inputs, PinnedInputs):
                kept.mark(number, run.inputs.place(), writer)
            if run.on_batch is not None:
                run.on_batch(delivery, totals)
    return totals


@contextmanager
def _runner(run: _Run, stages: Sequence[Stage], ahead: int) -> Iterator[RunBatches]:
    """What gives the outcome of each batch: a pool of processes, or this one alone."""
    if run.alone:
        yield partial(_in_this_process, stages, run.life.stopping)
        return
    with Pool(stages, run.count, run.folder, run.life.stopping, ahead, anywhere=run.inputs.anywhere) as pool:
        yield pool.run


def _in_this_process(
    stages: Sequence[Stage], stopping: StopFlag, batches: Iterable[Dealt], first: int = 0
) -> Iterator[Rows]:
    """The outcome of each batch, as ``Pool.run`` gives it. Raises StoppedError where ``stopping`` is set."""
    for number, (mine,) in enumerate(batches, first):
        outcome = _judged_here(stages, number, mine)
        if stopping.is_set():
            raise StoppedError("stopped before all was judged")
        yield outcome


def _judged_here(stages: Sequence[Stage], batch_id: int, rows: Sequence[pa.RecordBatch]) -> Rows:
    """What comes of one batch, judged in this process."""
    judged = in_one(stages, Task(batch_id=batch_id), iter(rows))
    return [each for batch in judged for each in zip(*(batch.column(n).to_pylist() for n in (2, 3)), strict=True)]


def outcomes(
    judged: BacktestSpec,
    folder: Path,
    seen: Callable[[Records], None] | None = None,
    wanted: Callable[[Hit], bool] | None = None,
) -> Iterator[Outcome]:
    """The outcome of each batch, judged in this process: a sample is done before processes are forked.

    ``seen``: called with the decoded records. ``wanted``: which hits become alerts; None: all. Raises as ``backtest``.
    """
    inputs = inputs_of(judged, folder, 1, SAMPLE_BATCH_BYTES)
    source = HeldSnapshot(inputs.aligned(judged.snapshot(judged.rules, 1)))
    intake = inputs.intake if seen is None else ShownIntake(inputs.intake, seen)
    stages = stages_of(source, intake, MemoryJudge(source, wanted=wanted))
    for number, (mine,) in enumerate(inputs.batches(1)):
        yield collect_outcome(_judged_here(stages, number, mine), None)


def inputs_of(judged: BacktestSpec, folder: Path, count: int, most: int) -> BacktestInputs:
    """The input of ``judged`` for ``count`` processes, in batches of ``most`` bytes at most."""
    if judged.stored is not None:
        return judged.stored.open(folder, count, judged.batch_bytes(most))
    return Inputs.of(judged.history.files(), folder, count, judged.batch_bytes(most))


@dataclass(slots=True)
class Inputs:
    """The files of all streams, cut into the same batches as in a draining pipeline."""

    logs: dict[str, FileChunks]
    intake: StreamIntake
    batch_bytes: int
    ends: list[int] = field(default_factory=list)  # bytes up to the end of each batch so far
    size: int = 0
    sizes: dict[str, int] = field(default_factory=dict)  # by stream
    side_by_side: bool = False
    anywhere: bool = True  # a table is not: it matters who has read the piece before

    @staticmethod
    def of(files: Sequence[FileInput], folder: Path, count: int, batch_bytes: int | None = None) -> Inputs:
        """Find the files. Raises UsageError if there are none, SourceError if one cannot be read."""
        most = BATCH_BYTES if batch_bytes is None else batch_bytes
        logs = {
            each.stream: FileChunks(
                patterns_of(each, there=True),
                f"{folder}/sources/{each.stream}",
                chunk_bytes(most, count),
                whole_files=each.whole,
                unended=unended_of(each.form, complete=True, drain=False),
            )
            for each in files
        }
        intake = StreamIntake({stream: ChunkIntake(stream) for stream in logs})
        found = Inputs(logs, intake, most, anywhere=not any(each.whole for each in files))
        for stream, log in logs.items():
            last = log.poll(time.time_ns() // 1_000_000)
            found.sizes[stream] = sum(chunk.end - chunk.start for chunk in log.chunks(0, last))
        found.size = sum(found.sizes.values())
        return found

    def aligned(self, snapshot: PlanSnapshot) -> PlanSnapshot:
        """``snapshot`` with the bounds of a stream join: joined streams are read in step, to the same instants."""
        stream_join = snapshot.stream_join()
        for stream in sorted(stream_join - set(self.logs)):
            log.warning("rules join a stream that has no input; its figures are missing", stream=stream)
        streams = tuple(stream for stream in self.logs if stream in stream_join and self.sizes[stream])
        if len(streams) < 2:
            return snapshot
        self.side_by_side = True
        every = tuple(stream for stream in self.logs if self.sizes[stream])
        return replace(snapshot, bounds=replace(snapshot.bounds, aligned=every))

    def _most(self, stream: str) -> ReadLimit:
        share = self.sizes[stream] / max(self.size, 1) if self.side_by_side else 1
        return ReadLimit(max(1, int(self.batch_bytes * share)), CHUNKS_MAX)

    def batches(self, count: int) -> Iterator[Dealt]:
        """The chunks of each batch, by the one of ``count`` processes that reads them, or pieces for any of them."""
        at, done = dict.fromkeys(self.logs, 0), 0
        tables = TableDealer(count, AHEAD * self.batch_bytes)
        pieces = PIECES * count if self.anywhere and count > 1 else 0
        while True:
            given: list[list[pa.RecordBatch]] = [[] for _ in range(pieces or count)]
            for stream, log in self.logs.items():
                end = log.reach(at[stream], self._most(stream))
                chunks = log.chunks(at[stream], end)
                at[stream] = end
                done += sum(chunk.end - chunk.start for chunk in chunks)
                last = chunks[-1].sequence if chunks and log.reach(end, self._most(stream)) == end else -1
                dealt = deal_chunks(chunks, pieces) if pieces else tables.deal(chunks)
                for mine, run in zip(given, dealt, strict=False):
                    if run:
                        mine.append(self.intake.marked(stream, chunk_rows(run), last))
            if not any(given):
                return
            self.ends.append(done)
            yield [each for each in given if each] if pieces else given

    def share(self, batch: int) -> float:
        """The share of the input that is done after ``batch``, 0 to 1."""
        return self.ends[batch] / self.size if self.size else 1.0
