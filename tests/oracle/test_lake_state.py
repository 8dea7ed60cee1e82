"""A pipeline whose checkpoint is lost goes on from a snapshot in the lake, and reports what it does without that.

The checkpoint is a real one, on disk, led as in ``living``; the twin is a life that nothing happens to. Sinks know what
they have by its id: so what is reported again has the same ids and the same content.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from crossline.io.objects.file_stores import LocalFiles
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.state.restore import StateRestore
from crossline.lake.state.state_snapshots import StateSnapshot, StateSnapshots, newest_by
from crossline.lake.watermark import Watermark
from crossline.runtime.snapshot.spark_log import last_committed, last_planned, offsets_of, query_id
from crossline.runtime.state_log.pinned_checkpoint import CheckpointPlace, pin
from unit.lake.lake_kit import CHECKPOINT, SpooledPipeline

from .living import Life, Piece
from .strategies import Body, Record
from .test_detect_equals_naive import DEEP, many
from .test_publications import COUNT
from .test_reshard import (
    ABSENT,
    BOTH,
    BUSY,
    COOLING,
    FIGURES,
    IN_PANES,
    LATER,
    OF_KEYS,
    WAITING,
    Op,
    begun,
    cases,
    happenings,
    lead,
    mixed,
    plain,
    reevaluated,
)

NAME = "payments"
WHERE = ("planned", "judged", "delivered", "between")
Moment = tuple[int, str]  # the number of a happening, and where in it


@dataclass
class KeptLife:
    """Leads a life; at ``kept`` its state goes to the lake, at ``lost`` its checkpoint goes."""

    life: Life
    lake: SpooledPipeline
    kept: Moment
    lost: Moment
    snapshot: StateSnapshot | None = None
    again: int = 0
    ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.life.folder / "spark").mkdir(exist_ok=True)
        (self.life.folder / "spark" / "metadata").write_text(json.dumps({"id": CHECKPOINT}))
        self.snapshots = StateSnapshots(open_lake(self.lake.config))

    def lead(self, ops: Sequence[Op], made: Sequence[Record]) -> None:
        at = 0
        for number, (happens, what) in enumerate(ops):
            if happens == "publish":
                self.life.feed.waiting.append(what)
                self.life.side_input()
                self.life.between()
                self.meet(number, "between")
                continue
            size, pieces, _ = what
            self.life.take_in(made[at : at + size], pieces)
            at += size
            self.batch(number)

    def batch(self, number: int) -> None:
        """The next batch, unless it is judged in what follows a loss."""
        chunks = self.life.plan_batch()
        if self.meet(number, "planned"):
            return
        reported = self.life.judge(chunks)
        if self.meet(number, "judged"):
            return
        self.life.deliver(reported)
        if self.meet(number, "delivered"):
            return
        self.life.commit()
        self.life.between()
        self.meet(number, "between")

    def meet(self, number: int, where: str) -> bool:
        """Keep or lose what is to be kept or lost here; whether it was lost."""
        if (number, where) == self.kept:
            self.keep()
        if (number, where) == self.lost and self.snapshot is not None:
            self.lose()
            return True
        return False

    def keep(self) -> None:
        folder = self.life.folder
        place = CheckpointPlace(folder, f"{folder}/state", LocalFiles(folder / "behind"))
        copy = pin(place, folder.with_name("copy"))
        if copy is None:
            return
        mark = Watermark(copy.checkpoint, copy.batch, 1_000, {"x": 7})
        self.snapshot = self.snapshots.put(copy, mark, self.rule_log, 5_000, threading.Event())
        assert self.snapshot is not None
        shutil.rmtree(folder.with_name("copy"))

    @property
    def rule_log(self) -> Path:
        return self.life.folder.with_name("rules") / ".log" / f"{NAME}.jsonl"

    def lose(self) -> None:
        folder = self.life.folder
        shutil.rmtree(folder)
        chosen = newest_by(self.snapshots.all())
        assert chosen == self.snapshot
        done = StateRestore(NAME, str(folder), self.rule_log, self.snapshots, 6_000).restore(chosen)
        assert query_id(str(folder)) == done.checkpoint != CHECKPOINT
        self.go_on()

    def go_on(self) -> None:
        """As Spark does: a batch that was planned comes again, with its records; the others follow."""
        folder, life = str(self.life.folder), self.life
        committed, planned = last_committed(folder), last_planned(folder)
        life.batches = committed + 1
        life.start()
        if planned > committed:
            self.again += 1
            self.judged(self.planned(committed, planned))
        self.judged(life.plan_batch())

    def planned(self, before: int, batch: int) -> list[Piece]:
        folder, streams = str(self.life.folder), list(self.life.streams)
        found = []
        ends = zip(streams, offsets_of(folder, before), offsets_of(folder, batch), strict=True)
        for stream, start, end in ends:
            first = 0 if start is None else start["chunk"]
            found += [(stream, number) for number in range(first, 0 if end is None else end["chunk"])]
        return found

    def judged(self, chunks: Sequence[Piece]) -> None:
        self.life.deliver(self.life.judge(chunks))
        self.life.commit()
        self.life.between()


def as_sinks_have_it(life: Life) -> list[list[str]]:
    """What was reported, each once."""
    return [sorted(set(each)) for each in plain((life.alerts, life.duplicates, life.late))]


def compared(rules: list[Body], ops: Sequence[Op], made: Sequence[Record], kept: Moment, lost: Moment) -> KeptLife:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        whole = begun(Path(folder), rules, 2)
        lead(whole, ops, made, stops=False)
        place = Path(other) / "checkpoint"
        place.mkdir()
        cut = KeptLife(begun(place, rules, 2), SpooledPipeline(Path(other) / "pipeline"), kept, lost)
        cut.lead(ops, made)
    assert as_sinks_have_it(cut.life) == as_sinks_have_it(whole)
    ids = {alert["alert_id"] for alert in whole.alerts}
    assert {alert["alert_id"] for alert in cut.life.alerts} == ids
    return cut


@settings(many, max_examples=300 if DEEP else 3)
@given(st.data(), cases())
def test_any_state_that_is_lost_anywhere_is_gone_on_with(
    data: st.DataObject, case: tuple[list[Body], list[Record]]
) -> None:
    rules, made = case
    ops = data.draw(happenings(len(made)))
    assume(ops)
    moments = [(number, where) for number in range(len(ops)) for where in WHERE]
    first = data.draw(st.integers(min(4, len(moments) - 1), len(moments) - 1))
    lost = data.draw(st.integers(first, len(moments) - 1))
    cut = compared(rules, ops, made, moments[first], moments[lost])
    event(f"restored: {cut.snapshot is not None}, a batch run again: {bool(cut.again)}")


@pytest.mark.parametrize("kept", [(3, "between"), (3, "planned"), (2, "delivered"), (5, "judged")])
def test_states_of_all_kinds_and_a_rule_that_comes_between_snapshot_and_loss(kept: Moment) -> None:
    """The rule log outlives the checkpoint, so the later rule has its past again."""
    again = [reevaluated(body, number) for number, body in enumerate([*BUSY[:3], *OF_KEYS[:1]])]
    panes = [{**body, "rule_id": f"p{n}", "version": 1} for n, body in enumerate((IN_PANES, FIGURES))]
    rules = [COOLING, ABSENT, BOTH, WAITING, *panes, *again]
    ops: list[Op] = [("batch", (4, 1, None)) for _ in range(8)]
    ops.insert(4, ("publish", LATER))
    cut = compared(rules, ops, mixed(1, 32), kept, (7, "judged"))
    assert cut.snapshot is not None
    assert cut.again == (kept[1] != "between")
    assert {alert["rule_id"] for alert in cut.life.alerts} >= {"cooling", "later", "p0", "p1", "off"}, "not tested"


def test_a_backfill_is_part_of_the_snapshot() -> None:
    """A rule came before the snapshot; its past is in a log of its own."""
    ops: list[Op] = [("batch", (4, 1, None)) for _ in range(6)]
    ops.insert(2, ("publish", LATER))
    cut = compared([{**COUNT, "window": "30s"}], ops, mixed(2, 24), (3, "between"), (6, "planned"))
    assert cut.snapshot is not None
    assert any(alert["rule_id"] == "later" for alert in cut.life.alerts), "not tested"
