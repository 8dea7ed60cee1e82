"""A replay that goes on after a stop or a kill: its state and its output are kept in a folder, batch by batch.

The state is logged as that of a pipeline is, by the same code. After each batch the folder gets a mark: the batch, how
many bytes of the output count, and the totals. A run that finds a mark reads the state of that batch, cuts the output
there, and goes on with the next batch.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.backtest.alert_writer import AlertWriter
from crossline.basics.errors import StateError, UsageError
from crossline.io.files.state_files import put
from crossline.runtime.local.saved_state import plan_of
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.totals import Totals

FORMAT = 1
BEGUN, MARK, ALERTS, DECISIONS, STATE = "replay.json", "mark.json", "alerts.jsonl", "decisions.jsonl", "state"
_OF_A_START = {".lock", f"{BEGUN}.tmp"}  # of one that was killed before it began, too
_TIMES = ("started_s", "first_s", "ended_s")  # of a process


@dataclass(slots=True)
class KeptRun:
    """A replay in a folder.

    Attributes:
        folder: The folder.
        processes: How many processes it was begun with; its keys are divided among as many shards.
        cuts: What cuts its input into batches.
        batch: The last batch that is done; -1: none.
        place: Where the input goes on; see ``PinnedInputs``.
        sizes: The bytes of alerts and of decisions up to that batch.
        totals: The totals up to that batch.
    """

    folder: Path
    processes: int
    cuts: Mapping[str, Any]
    batch: int = -1
    place: Sequence[int] = ()
    sizes: tuple[int, int] = (0, 0)
    totals: Totals = field(default_factory=Totals)

    @property
    def cache(self) -> ShardCache:
        """Where its states are."""
        return ShardCache(str(self.folder / STATE), per_query=False, held_max=self.processes)

    @contextmanager
    def writer(self, *, decisions: bool) -> Iterator[AlertWriter]:
        """The writer of its output, which goes on where the last batch ended."""
        made = AlertWriter(self.folder / ALERTS, self.folder / DECISIONS if decisions else None)
        made.open(*self.sizes)
        try:
            yield made
        finally:
            made.close()

    def mark(self, batch: int, place: Sequence[int], writer: AlertWriter) -> None:
        """Note that ``batch`` is done, and where the input goes on."""
        totals = {name: value for name, value in asdict(self.totals).items() if name not in _TIMES}
        body = {"batch": batch, "place": list(place), "sizes": writer.sizes(), "totals": totals}
        put(self.folder / MARK, orjson.dumps(body))

    def copy_output(self, output: Path, decisions: Path | None) -> None:
        """Copy the output to its place. The folder stays until ``discard``: a kill meanwhile loses nothing."""
        shutil.copyfile(self.folder / ALERTS, output)
        if decisions is not None:
            shutil.copyfile(self.folder / DECISIONS, decisions)


def discard(folder: Path) -> None:
    """Remove the folder of a run whose output is where it belongs."""
    shutil.rmtree(folder)


@contextmanager
def kept_run(
    folder: Path, snapshot: PlanSnapshot, processes: int, cuts: Callable[[], Mapping[str, Any]], *, decisions: bool
) -> Iterator[KeptRun]:
    """The run of ``folder``: begun now, or as far as it came. One process has it at a time.

    Args:
        folder: The folder; it is made where it is missing.
        snapshot: By what is judged.
        processes: How many processes a new run has.
        cuts: Gives what cuts the input of a new run into batches.
        decisions: Whether decisions are written.

    Raises:
        UsageError: Another process is at work in it, or it has other files, or a run by another plan.
        StateError: It is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder}: another replay is at work in this folder; wait for it") from None
        plan = {"plan": plan_of(snapshot), "decisions": decisions}
        known = _read(folder / BEGUN)
        if known is None:
            if others := sorted(each.name for each in folder.iterdir() if each.name not in _OF_A_START):
                raise UsageError(f"{folder}: found {others[0]}, expected an empty folder or one of a replay")
            known = {"format": FORMAT, **plan, "processes": processes, "cuts": dict(cuts())}
            put(folder / BEGUN, orjson.dumps(known))
        _check(folder, known, plan)
        yield _at_mark(KeptRun(folder, known["processes"], known["cuts"]))


def _check(folder: Path, known: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    if known.get("format") != FORMAT:
        raise StateError(f"{folder / BEGUN}: found format {known.get('format')}, expected {FORMAT}; delete the folder")
    if orjson.loads(orjson.dumps(plan)) != {name: known.get(name) for name in plan}:
        raise UsageError(
            f"{folder}: has a replay by other rules, lists, tables, streams, policy or options; repeat the command "
            "that began it, or name another folder"
        )


def _at_mark(run: KeptRun) -> KeptRun:
    mark = _read(run.folder / MARK)
    if mark is None:
        return run
    place = mark["place"]
    run.batch, run.place = int(mark["batch"]), [place] if isinstance(place, int) else [int(each) for each in place]
    run.sizes = (int(mark["sizes"][0]), int(mark["sizes"][1]))
    run.totals = Totals(**mark["totals"])
    for name, size in zip((ALERTS, DECISIONS), run.sizes, strict=True):
        path = run.folder / name
        if size and (not path.exists() or path.stat().st_size < size):
            raise StateError(f"{path}: found less than the {size:,} bytes of the mark; delete the folder")
    return run


def _read(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise StateError(f"{path}: damaged ({error}); delete the folder") from None
