"""A pipeline in a folder, as a user has it, and what came out of it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from crossline.lake.warm_start import LakePast
from crossline.runtime.pipeline.assemble import RunOptions, assemble, read_config
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.work.totals import Totals
from crossline.settings.config import PipelineConfig as Config
from crossline.settings.config import in_folder
from oracle.naive import NaiveResult

from .traffic import DEFAULTS, SPREAD, STREAM, STREAMS, Body

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crossline.io.sinks.base import Delivery
    from crossline.observe.telemetry import Telemetry

# The instants of detection and delivery are those of the wall clock; all else of an alert must be the same everywhere.
OF_THE_RUN = ("detected_at", "delivered_at")
WAIT_S = 300.0  # for what comes at once on a machine with nothing else to do

Alerts = dict[str, dict[str, Any]]


class Project:
    """Files under ``root``; ``settings`` replace what stands here in pipeline.yaml."""

    def __init__(self, root: Path, rules: Sequence[Body], **settings: Any) -> None:
        self.root = root
        for folder in ("in", "rules"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        if rules:
            self.publish("rules.yaml", rules)
        self.settings: dict[str, Any] = {
            "schema_version": 1,
            "name": "shop",
            "streams": STREAMS,
            "sources": {STREAM: {"kind": "files", "path": "in"}},
            "rules": {"kind": "directory", "path": "rules"},
            "sinks": [{"kind": "sqlite", "path": "out/alerts.db"}],
            "defaults": DEFAULTS,
            "engine": {"trigger": "0s", "shards": 3, "checkpoint": "out/checkpoint", "master": "local[2]"},
            **settings,
        }
        self.pipeline = root / "pipeline.yaml"
        self.pipeline.write_text(yaml.safe_dump(self.settings))
        (root / "stream.yaml").write_text(yaml.safe_dump({"schema_version": 1, "streams": self.settings["streams"]}))

    @property
    def store(self) -> Path:
        return self.root / "out" / "alerts.db"

    def set_engine(self, **changes: Any) -> None:
        """Change settings of the engine for the next start."""
        self.settings["engine"] |= changes
        self.pipeline.write_text(yaml.safe_dump(self.settings))

    def publish(self, name: str, rules: Sequence[Body] | str) -> None:
        """Put a rule file there, whole or not at all; text is written as it is."""
        self.put(
            self.root / "rules" / name, (rules if isinstance(rules, str) else yaml.safe_dump(list(rules))).encode()
        )

    def give(self, name: str, data: bytes) -> None:
        """An input file, whole or not at all."""
        self.put(self.root / "in" / name, data)

    @staticmethod
    def put(path: Path, data: bytes) -> None:
        """A file, whole or not at all: a pipeline may be looking."""
        partial = path.with_name(f".{path.name}")
        partial.write_bytes(data)
        partial.replace(path)

    def config(self) -> Config:
        return in_folder(read_config(str(self.pipeline)), str(self.root))

    def start(
        self,
        spark: SparkSession,
        *,
        complete: bool = False,
        hold_after: int | None = None,
        watch: Telemetry | None = None,
    ) -> Running:
        """``hold_after``: as ``Running.hold_after``, from before the first batch."""
        return Running(self, spark, complete=complete, hold_after=hold_after, watch=watch)

    def drain(self, spark: SparkSession) -> Totals:
        """Run to the end of what is there, in this process."""
        with self.start(spark, complete=True) as running:
            return running.pipeline.drain()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """From the store, which a pipeline may be writing."""
        with closing(sqlite3.connect(self.store, timeout=WAIT_S)) as connection:
            return connection.execute(query).fetchall()

    def alerts(self) -> Alerts:
        """By id, without what is of the run; raises where an id comes twice."""
        return by_id(json.loads(body) for (body,) in self.rows("SELECT body FROM alerts ORDER BY seq"))

    def dead(self) -> list[tuple[str, str | None]]:
        """Reason and record id of each dead letter."""
        return sorted(self.rows("SELECT reason, record_id FROM dead_letters"), key=str)

    def late(self) -> list[str]:
        return sorted(row[0] for row in self.rows("SELECT record_id FROM late_records"))

    def rule_log(self) -> list[dict[str, Any]]:
        path = self.root / "rules" / ".log" / f"{self.settings['name']}.jsonl"
        if not path.exists():
            return []
        # A line without its end is being written.
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def until_logged(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for an event of the rule log, which sends no notification."""
        wanted = {"event": event, **fields}
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            for found in self.rule_log():
                if wanted.items() <= found.items():
                    return found
            time.sleep(0.02)
        raise AssertionError(f"no {wanted} in {self.rule_log()}")


class Running:
    """A pipeline running in this process; a context that stops it. What it delivered can be waited for."""

    def __init__(
        self,
        project: Project,
        spark: SparkSession,
        *,
        complete: bool,
        hold_after: int | None,
        watch: Telemetry | None = None,
    ) -> None:
        self._news = threading.Condition()
        self._project = project
        self.deliveries: list[Delivery] = []
        self._last = hold_after
        self._held = threading.Event()
        self._watch = watch
        config = project.config()
        options = RunOptions(
            complete,
            self._batch,
            sink_watch=None if watch is None else watch.sinks,
            stored_past=None if config.lake is None else partial(LakePast, config),
        )
        self.pipeline: Pipeline = assemble(spark, config, options)
        if watch is not None:
            watch.follow(self.pipeline)
        self.pipeline.start()  # batches may be done before it returns

    def _batch(self, delivery: Delivery, totals: Totals) -> None:
        if self._watch is not None:
            self._watch.batch(delivery, totals)
        with self._news:
            self.deliveries.append(delivery)
            self._news.notify_all()
        if self._last is not None and self.pipeline.totals.batches >= self._last:
            self._held.set()
            # Until the stop has come to Spark, which ends after this batch.
            while not self.pipeline.running or self.pipeline._running().isActive:
                time.sleep(0.02)

    def hold_after(self, batches: int) -> None:
        """Begin no batch after that many, and let the last of them end only when the pipeline is being stopped."""
        self._last = batches

    def until_held(self) -> None:
        assert self._held.wait(WAIT_S), f"not in time: {self.pipeline.totals}"

    def until(self, done: Callable[[Totals], bool]) -> None:
        """Wait for a delivery after which the totals are ``done``."""
        with self._news:
            assert self._news.wait_for(lambda: done(self.pipeline.totals), WAIT_S), (
                f"not in time: {self.pipeline.totals}"
            )

    def until_read(self, count: int) -> None:
        """Wait until ``count`` lines were delivered, as records or as dead letters that are no record."""
        self.until(lambda t: t.records + sum(n for reason, n in t.dead.items() if reason != "duplicate_id") >= count)

    def until_logged(self, event: str, **fields: Any) -> dict[str, Any]:
        """As ``Project.until_logged``."""
        return self._project.until_logged(event, **fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pipeline.stop()


def by_id(alerts: Iterable[Mapping[str, Any]]) -> Alerts:
    """Alerts by id, without what is of the run; raises where an id comes twice."""
    found: Alerts = {}
    for alert in alerts:
        assert alert["alert_id"] not in found, f"twice: {alert}"
        found[alert["alert_id"]] = {name: value for name, value in alert.items() if name not in OF_THE_RUN}
    return found


def read_jsonl(path: Path) -> Alerts:
    """The alerts of a file of JSON lines."""
    return by_id(json.loads(line) for line in path.read_text().splitlines())


def from_twin(result: NaiveResult) -> dict[str, tuple[Any, ...]]:
    """What the naive twin says of each alert, to be compared with ``figures``."""
    return {
        hit.alert_id: (
            *(hit.rule_id, hit.version, hit.kind, hit.key, hit.record_id, _figure(hit.rule_id, hit.value)),
            *(hit.count, list(hit.evidence)),
        )
        for hit in result.hits
    }


def figures(alerts: Alerts) -> dict[str, tuple[Any, ...]]:
    """Rule, version, kind, key, record, value, count and evidence of each alert."""
    return {
        name: (
            *(alert[field] for field in ("rule_id", "rule_version", "kind", "key", "record_id")),
            *(_figure(alert["rule_id"], alert["value"]), alert["evidence"]["count"], alert["evidence"]["record_ids"]),
        )
        for name, alert in alerts.items()
    }


def _figure(rule_id: str, value: float | None) -> float | str | None:
    """A standard deviation is promised to twelve digits, all else to the last bit."""
    return f"{value:.12g}" if rule_id == SPREAD else value


def crossline(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line, to its end; raises where it fails."""
    return subprocess.run(
        [sys.executable, "-m", "crossline.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        **options,
    )
