"""Measures how fast the records of an alert are found in a lake: ``python -m bench.lake_lookup [--records N]``.

A table has ``--records`` records of 20,000 accounts over ``--days`` days, as maintenance leaves it: files of at most
128 MiB for each closed day, and the small files of a writer for the last day. Then alerts of random accounts and
instants are looked up, with windows of 10 minutes to 7 days, as ``crossline alerts show`` does: the alert by its id,
its batch in the watermark, its records by their ids. Cold is a new reader, without metadata and with files that are not
in the page cache; warm is a reader that stays open. ``cpu_ms`` is the processor time of a lookup, which says more where
other processes run. ``--folder`` keeps the table there, and measures the one that is there already.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from bench.lake import write_project
from bench.report import Report, say
from crossline.backtest.record_search import RecordQuery
from crossline.basics.times import format_instant
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.lookup.alert_lookup import AlertLookup
from crossline.lake.reading import LakeReader
from crossline.lake.tables.data_files import write_files
from crossline.lake.tables.delivery_rows import delivery_rows
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import ALERTS, WATERMARKS, records_layout
from crossline.lake.watermark import Watermark, Watermarks
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.settings.config import PipelineConfig

ACCOUNTS = 20_000
START_MS = 1_767_225_600_000  # 2026-01-01
DAY_MS = 86_400_000
WINDOWS_MS = {"10 minutes": 600_000, "1 hour": 3_600_000, "1 day": DAY_MS, "7 days": 7 * DAY_MS}
NO_BOUNDS = "1 day, not known"  # of rules with another clock than event time
IDS_MAX = 100  # of an alert's evidence
FILE_ROWS = 2_000_000  # as maintenance merges files of such rows
SMALL_FILES = 60
CHECKPOINT = "bench"
SECONDS_MAX = 1.0


@dataclass(slots=True)
class Table:
    """The lake, and what was put into it."""

    folder: Path
    config: PipelineConfig
    stream: str
    records: int
    days: int
    alerts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def a_day(self) -> int:
        """Records of a day, spread evenly over it."""
        return self.records // self.days

    def account(self, numbers: Any) -> Any:
        """The account of records, by their numbers: without an order, and the same at each run."""
        return (numbers * 2_654_435_761 % 4_294_967_291) % ACCOUNTS

    def at_ms(self, numbers: Any) -> Any:
        """Their event times."""
        return START_MS + numbers * DAY_MS // self.a_day

    def fill(self) -> float:
        """Write the records; how many seconds it took."""
        began_s = time.monotonic()
        lake = open_lake(self.config)
        spec = self.config.streams[self.stream]
        table = LakeTable.ensure(lake, records_layout(self.stream, spec))
        files: list[str] = []
        for day in range(self.days):
            last = day == self.days - 1
            pieces = SMALL_FILES if last else -(-self.a_day // FILE_ROWS)
            edges = np.linspace(day * self.a_day, (day + 1) * self.a_day, pieces + 1).astype(np.int64)
            for start, end in itertools.pairwise(edges):
                rows = self._rows(table, np.arange(start, end, dtype=np.int64))
                files += write_files(table.layout, rows, table.table.location(), table.table.io)
            if len(files) >= 100 or last:
                with table.table.transaction() as transaction:
                    transaction.add_files(files, check_duplicate_files=False)
                files = []
            if day % 10 == 9:
                say(f"{(day + 1) * self.a_day:,} records after {time.monotonic() - began_s:.0f} s")
        lake.close()
        return time.monotonic() - began_s

    def _rows(self, table: LakeTable, numbers: Any) -> pa.Table:
        """Rows of records: their own columns as the generator has them, all else null."""
        at = pa.array(self.at_ms(numbers) * 1_000).cast(pa.timestamp("us", "UTC"))
        n = len(numbers)
        known = {
            "_record_id": _named("t", numbers, 12),
            **dict.fromkeys(("_event_time", "_ingest_time", "_reached_at", "_delivered_at"), at),
            "_log": pa.repeat("payments-0", n),
            "_position": pa.array(numbers),
            "_duplicate": pa.repeat(False, n),
            "_batch": pa.array(numbers // 100_000),
            "_checkpoint": pa.repeat(CHECKPOINT, n),
        }
        accounts = self.account(numbers)
        own = {
            "transaction_id": known["_record_id"],
            "account_id": _named("a", accounts, 7),
            "card_hash": _named("c", accounts * 3 + numbers % 3, 7),
            "merchant_id": _named("m", numbers * 7_919 % 5_003, 5),
            "amount_cents": pa.array(numbers * 104_729 % 100_003),
            "currency": pa.repeat("EUR", n),
            "lat": pa.array(accounts % 180 - 90.0),
            "lon": pa.array(accounts % 360 - 180.0),
            "event_time": pa.array(self.at_ms(numbers)),
            "payment_type": pa.repeat("card", n),
        }
        columns = {**own, **known}
        schema = table.layout.schema
        return pa.table(
            [columns[each.name].cast(each.type) if each.name in columns else pa.nulls(n, each.type) for each in schema],
            schema=schema,
        )

    def choose(self, count: int, seed: int) -> None:
        """Choose random records, for alerts with each window; the same ones for the same arguments."""
        chosen = random.Random(seed)
        for name, window_ms in WINDOWS_MS.items():
            first = min(window_ms * self.a_day // DAY_MS, self.records // 2)
            self.alerts[name] = [self._alert(chosen.randrange(first, self.records), window_ms, n) for n in range(count)]

    def put_alerts(self) -> None:
        """Append the alerts, and the watermark that covers them."""
        from crossline.io.outbox.batch_spool import SpooledBatch  # noqa: PLC0415 - after the records
        from crossline.io.sinks.base import Delivery  # noqa: PLC0415 - as above

        lake = open_lake(self.config)
        every = [each for found in self.alerts.values() for each in found]
        made = Delivery("lakebench", 0, alerts=every, checkpoint=CHECKPOINT, began_ms=START_MS)
        rows = delivery_rows([SpooledBatch(made, {}, START_MS)])
        LakeTable.ensure(lake, ALERTS).append(rows[ALERTS], CHECKPOINT, 0)
        last = Watermark(CHECKPOINT, self.records // 100_000 + 1, int(self.at_ms(self.records)))
        Watermarks(LakeTable.ensure(lake, WATERMARKS)).append(last)
        lake.close()

    def _alert(self, number: int, window_ms: int, place: int) -> dict[str, Any]:
        """As a rule over the account's window would have emitted it."""
        start = max(0, number - window_ms * self.a_day // DAY_MS)
        numbers = np.arange(start, number + 1, dtype=np.int64)
        account = int(self.account(number))
        mine = numbers[self.account(numbers) == account][-IDS_MAX:]
        at_ms = int(self.at_ms(number))
        alert_id = f"{place:08x}-{window_ms // 60_000:04x}-5000-8000-{number:012x}"
        return {
            **dict.fromkeys(("value", "operator", "threshold", "action", "corrects", "delivered_at")),
            "alert_id": alert_id,
            "kind": "alert",
            "rule_id": "r1",
            "rule_version": 1,
            "rule_type": "velocity",
            "severity": "high",
            "score": 10,
            "key": {"account_id": f"a{account:07d}"},
            "stream": self.stream,
            "record_id": f"t{number:012d}",
            "event_time": format_instant(at_ms),
            "ingest_time": format_instant(at_ms),
            "window_start": format_instant(at_ms - window_ms),
            "window_end": format_instant(at_ms),
            "detected_at": format_instant(at_ms),
            "evidence": {"count": len(mine), "record_ids": [f"t{each:012d}" for each in mine.tolist()]},
            "message": "",
        }


def _named(letter: str, numbers: Any, digits: int) -> pa.Array:
    return pc.binary_join_element_wise(letter, pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0"), "")


def look_up(lookup: AlertLookup, table: Table, alert: dict[str, Any], window_ms: int) -> int:
    """Find an alert and its records; how many records. ``window_ms``: 0: not known.

    Raises SystemExit if one is missing.
    """
    at_ms = int(table.at_ms(int(alert["record_id"][1:])))
    (found,) = lookup.find(alert["alert_id"], at_ms=at_ms)
    if not lookup.covers(found):
        raise SystemExit(f"the watermark does not cover alert {alert['alert_id']}")
    ids = found.alert["evidence"]["record_ids"]
    bounds = (at_ms - window_ms, at_ms) if window_ms else (None, None)
    wanted = RecordQuery(table.config.streams[table.stream], ids, alert["key"], *bounds)
    records = lookup.records(table.stream, wanted, at_ms, time.monotonic() + 60)
    if sorted(records) != sorted(ids):
        raise SystemExit(f"alert {alert['alert_id']}: found {len(records)} of {len(ids)} records")
    return len(records)


def _forget(folder: Path) -> None:
    """Drop the files from the page cache."""
    for path in folder.rglob("*.parquet"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _timed(
    table: Table, alerts: list[dict[str, Any]], window_ms: int, *, warm: bool
) -> Iterator[tuple[float, float, int]]:
    """Of each alert the milliseconds, those of the processor, and how many records it has."""
    kept = AlertLookup(LakeReader(open_lake(table.config), table.config, fresh_s=1.0)) if warm else None
    for alert in alerts:
        if kept is None:
            _forget(table.folder)
            _clear_manifests()
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        lookup = kept or AlertLookup(LakeReader(open_lake(table.config), table.config, fresh_s=1.0))
        records = look_up(lookup, table, alert, window_ms)
        took_s, spent_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        yield 1e3 * took_s, 1e3 * spent_s, records
        if kept is None:
            lookup.reader.close()
    if kept is not None:
        kept.reader.close()


def _clear_manifests() -> None:
    from pyiceberg.manifest import clear_manifest_cache  # noqa: PLC0415 - an extra

    clear_manifest_cache()


def measure(folder: Path, records: int, days: int, alerts: int) -> Report:
    """Make the table and look the alerts up."""
    report = Report("lake_lookup", f"The records of an alert in a lake of {records:,} records over {days} days")
    there = (folder / "pipeline.yaml").exists()
    pipeline = folder / "pipeline.yaml" if there else write_project(folder, 60)
    config = read_pipeline_in_place(pipeline)
    (stream,) = config.streams
    table = Table(folder, config, stream, records, days)
    took_s = 0.0 if there else table.fill()
    table.choose(alerts, 1)
    if not there:
        table.put_alerts()
    reader = LakeReader(open_lake(config), config)
    (status,) = (each for each in reader.status() if each.name == f"records_{stream}")
    report.notes.append(
        f"{status.rows:,} rows, {status.files:,} files, {status.size / 2**20:,.0f} MiB, written in {took_s:.0f} s"
    )
    worst = 0.0
    for name, window_ms in {**WINDOWS_MS, NO_BOUNDS: 0}.items():
        for warm in (False, True):
            found = list(_timed(table, table.alerts[name if window_ms else "1 day"], window_ms, warm=warm))
            times = sorted(ms for ms, _, _ in found)
            p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
            worst = max(worst, p99)
            report.add(
                window=name,
                reader="warm" if warm else "cold",
                alerts=len(times),
                records=round(statistics.mean(count for *_, count in found), 1),
                p50_ms=round(statistics.median(times), 1),
                p99_ms=round(p99, 1),
                max_ms=round(times[-1], 1),
                cpu_ms=round(statistics.median(cpu_ms for _, cpu_ms, _ in found), 1),
            )
            say(orjson.dumps(report.rows[-1]).decode())
    report.notes.append(f"the slowest p99 is {worst / 1e3:.2f} s (asked: at most {SECONDS_MAX:g} s)")
    return report


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--alerts", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="keep the table here; measure the one that is here")
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        measure(given.folder.absolute(), given.records, given.days, given.alerts).finish()
        return
    with own_folder_for("bench") as folder:
        measure(folder, given.records, given.days, given.alerts).finish()


if __name__ == "__main__":
    main()
