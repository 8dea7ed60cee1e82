"""A pipeline without Spark whose checkpoint has a real state, beside a lake with the records of its batches."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.state.restore import StateRestore
from crossline.lake.state.schedule import StateSchedule
from crossline.lake.state.state_snapshots import StateSnapshot, StateSnapshots
from crossline.lake.watermark import Watermark, Watermarks
from crossline.lake.writing.follow import Follower
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.directory import log_path
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_log import contents_of
from crossline.rule_registry.log_file import LogFile
from oracle.living import Life
from oracle.test_publications import COUNT, _record
from oracle.test_reshard import begun
from unit.lake.lake_kit import CHECKPOINT, SpooledPipeline, alert, payment

NAME = "pay-eu"
RULE: dict[str, Any] = {**COUNT, "rule_id": "r0", "window": "60s"}
DAY_MS = 86_400_000
NOW_MS = 1_790_000_000_000


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class KeptPipeline:
    """Batches of one record each, whose rule counts the records of an account in a minute."""

    root: Path
    shards: int = 2
    now_ms: int = NOW_MS
    pipeline: SpooledPipeline = field(init=False)
    life: Life = field(init=False)

    def __post_init__(self) -> None:
        self.pipeline = SpooledPipeline(self.root)
        self.folder.mkdir(parents=True)
        self.life = begun(self.folder, [RULE], self.shards)
        self.folder.joinpath("spark").mkdir()
        self.folder.joinpath("spark", "metadata").write_bytes(orjson.dumps({"id": CHECKPOINT}))
        owner = {"schema_version": 1, "pipeline": NAME, "sources": []}
        self.folder.joinpath("owner.json").write_bytes(orjson.dumps(owner))
        self.snapshots = StateSnapshots(open_lake(self.pipeline.config))

    @property
    def folder(self) -> Path:
        return self.pipeline.folder

    @property
    def rule_log(self) -> Path:
        return log_path(self.pipeline.config.rules.path, NAME)

    def batch(self, account: str = "a1") -> int:
        """The next batch is committed; its number."""
        number = self.life.batches
        self.life.take_in([{**_record(number, number), "account": account}], 1)
        self.life.deliver(self.life.judge(self.life.plan_batch()))
        self.life.commit()
        return self.pipeline.batch([payment(number)])

    def log_list(self, number: int) -> None:
        """A list has another content, which lies beside the rule log."""
        log = LogFile(self.rule_log)
        log.open()
        content = FileContent(b"- a%d\n" % number)
        contents_of(log.path).keep("blocked.yaml", content)
        changed = RuleEvent("list_changed", 2, source="blocked.yaml", digest=content.digest, list_name="blocked")
        log.append([RuleEvent("started", 1), changed])
        log.close()

    def wait_for_sink(self, record_id: str) -> None:
        """An alert waits in the outbox of a sink."""
        outbox = OutboxSink(_Never(), self.folder / "behind" / "webhook-1", place="there")  # type: ignore[arg-type]
        outbox.deliver(Delivery(NAME, 0, alerts=[alert(1, record_id=record_id)]))

    def schedule(self, **other: Any) -> StateSchedule:
        given = {"every_ms": DAY_MS, "keep": 7, "clock_ms": lambda: self.now_ms, **other}
        return StateSchedule(self.snapshots, self.pipeline.config, self.folder, **given)

    def round(self, schedule: StateSchedule | None = None) -> None:
        """As the writer does between two pauses, where its round ends with the batch of the copy."""
        schedule = schedule or self.schedule()
        pinned = schedule.pin()
        if pinned is None:
            return
        try:
            self.mark(pinned.copy.batch)
            schedule.put(pinned, threading.Event())
        finally:
            pinned.release()

    def mark(self, batch: int) -> Watermark:
        """The lake has the batch."""
        made = Watermark(CHECKPOINT, batch, NOW_MS + batch, {"payments": batch})
        Watermarks.of(self.snapshots.lake).append(made)
        return made

    def written_round(self) -> None:
        """The same with the writer."""
        with self.pipeline.writer() as writer:
            Follower(writer, 60.0, state=self.schedule()).catch_up(threading.Event())

    def restoring(self, place: str | None = None, **other: Any) -> StateRestore:
        place = place or str(self.folder)
        return StateRestore(NAME, place, self.rule_log, self.snapshots, self.now_ms, **other)

    def last(self) -> StateSnapshot:
        return self.snapshots.all()[-1]

    def gone_on(self, account: str = "a1") -> float:
        """The count at the next record of an account, in a process that starts on the checkpoint."""
        self.life.batches = 1 + max(int(each.name) for each in (self.folder / "spark" / "commits").iterdir())
        self.life.start()
        del self.life.alerts[:]
        number = self.life.batches
        self.life.take_in([{**_record(number, number), "account": account}], 1)
        self.life.deliver(self.life.judge(self.life.plan_batch()))
        return float(self.life.alerts[-1]["value"])


class _Never:
    """A sink that is never opened."""


def state_folder(root: Path) -> Path:
    """Where snapshots have their files."""
    return root / "out" / "lake" / "pay_eu" / "_state"
