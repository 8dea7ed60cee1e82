"""PostgreSQL: the rate at which a sink fills it, and the time of investigators' queries over that data.

``python -m bench.postgres [--alerts MILLIONS] [--plans]``. There is a decision for every five alerts, and a correction
for every hundred. The server is started here; its data is in a folder that is removed at the end.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import uuid
from collections.abc import Iterator
from typing import Any

from dev.services.postgres import LocalPostgres

from bench.report import Report
from crossline.basics.times import instant_text
from crossline.io.postgres.client import Connection, address_of
from crossline.io.postgres.sink import PostgresSink
from crossline.io.sinks.base import Delivery
from crossline.settings.postgres import PostgresSettings

ACCOUNTS, RULES = 200_000, 20
HOT = "acc000000"  # an account with every fiftieth alert
DAY_MS = 86_400_000
DAYS = 365
START_MS = 1_735_689_600_000  # 2025-01-01
NAMES = uuid.UUID("5f3f2b1e-2d1f-4b7e-9a53-1c1b2c3d4e5f")
TRIES = 5

QUESTIONS = {
    "the latest 20 alerts of an account": """SELECT body FROM alerts WHERE entities @> ARRAY['account_id={account}']
        ORDER BY event_time DESC, seq DESC LIMIT 20""",
    "the latest 20 of one with every 50th alert": """SELECT body FROM alerts
        WHERE entities @> ARRAY['account_id={hot}'] ORDER BY event_time DESC, seq DESC LIMIT 20""",
    "those of an account that stand": """SELECT alert_id, outcome, value FROM alerts_now
        WHERE entities @> ARRAY['account_id={account}'] AND outcome IS DISTINCT FROM 'retracted'""",
    "the latest 20 alerts of a rule": """SELECT body FROM alerts WHERE rule_id = 'rule_07'
        ORDER BY event_time DESC, seq DESC LIMIT 20""",
    "alerts of a rule on a day, counted": """SELECT count(*) FROM alerts WHERE rule_id = 'rule_07'
        AND event_time >= '{day}' AND event_time < '{day}'::timestamptz + interval '1 day'""",
    "alerts of a day by rule": """SELECT rule_id, count(*) FROM alerts
        WHERE event_time >= '{day}' AND event_time < '{day}'::timestamptz + interval '1 day' GROUP BY rule_id""",
    "an alert by the start of its id": """SELECT body FROM alerts
        WHERE alert_id >= '{prefix}' AND alert_id < '{prefix}g' ORDER BY alert_id, seq LIMIT 10""",
    "alerts on a record": "SELECT body FROM alerts WHERE record_id = '{record}'",
    "alerts of an hour that rest on a record": """SELECT e.alert_id FROM evidence AS e WHERE e.record_id = '{record}'
        AND e.event_time >= '{at}'::timestamptz AND e.event_time < '{at}'::timestamptz + interval '1 hour'""",
    "corrections of an alert": """SELECT body FROM alerts
        WHERE corrects = '{corrected}' AND event_time = '{at_corrected}' ORDER BY seq""",
    "decisions on a record": "SELECT body FROM decisions WHERE record_id = '{decided}' ORDER BY seq",
    "decisions of an hour that do not allow": """SELECT body FROM decisions WHERE decision <> 'allow'
        AND event_time >= '{at}'::timestamptz AND event_time < '{at}'::timestamptz + interval '1 hour'
        ORDER BY event_time DESC, seq DESC""",
}


def main() -> None:
    """Fill the server, query it, and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alerts", type=float, default=10.0, help="millions of alerts")
    parser.add_argument("--batch", type=int, default=20_000, help="alerts per delivery")
    parser.add_argument("--quick", action="store_true", help="20,000 alerts")
    parser.add_argument("--plans", action="store_true", help="print the plan of each query")
    options = parser.parse_args()
    total = 20_000 if options.quick else int(options.alerts * 1_000_000)
    report = Report("postgres", f"PostgreSQL: a sink fills it with {total:,} alerts, and questions to it")
    with LocalPostgres() as server:
        given = {"host": server.host, "port": server.port, "user": server.user}
        settings = {"kind": "postgres", **given, "password_file": str(server.password_file)}
        place = address_of(PostgresSettings.model_validate(settings))
        sink = PostgresSink(place, "bench")
        sink.open()
        _fill(sink, total, options.batch, report)
        _small(sink, total, report)
        sink.close()
        with place.connect() as connection:
            _settle(connection, report)
            _ask(connection, total, report, plans=options.plans)
            version = connection.execute("SHOW server_version").fetchone()
        report.notes.append(f"PostgreSQL {version[0] if version else '?'}, its own settings (shared_buffers 128 MB)")
    report.finish()


def _fill(sink: PostgresSink, total: int, size: int, report: Report) -> None:
    taken, found = list[float](), time.monotonic()
    for number, first in enumerate(range(0, total, size)):
        made = delivery(number, range(first, min(total, first + size)), total)
        began = time.monotonic()
        sink.deliver(made)
        taken.append((time.monotonic() - began) / len(made.alerts))
        if time.monotonic() - found > 30:
            found = time.monotonic()
            print(f"  {min(total, first + size):,} of {total:,}: {1 / taken[-1]:,.0f} alerts/s", flush=True)
    tenth = max(1, len(taken) // 10)
    for name, part in (("the first tenth", taken[:tenth]), ("the last tenth", taken[-tenth:]), ("all", taken)):
        report.add(what=f"fill: {name}", result=f"{1 / statistics.mean(part):,.0f} alerts/s")
    again = delivery(0, range(min(total, size)), total)
    began = time.monotonic()
    sink.deliver(again)
    report.add(
        what="a delivery that comes again", result=f"{len(again.alerts) / (time.monotonic() - began):,.0f} alerts/s"
    )


def _small(sink: PostgresSink, total: int, report: Report) -> None:
    """A delivery as a quiet pipeline makes it."""
    taken = []
    for number in range(200):
        made = delivery(total + number, range(total + number * 5, total + number * 5 + 5), total)
        began = time.monotonic()
        sink.deliver(made)
        taken.append((time.monotonic() - began) * 1000)
    report.add(what="a delivery of 5 alerts, median", result=f"{statistics.median(taken):.1f} ms")


def _settle(connection: Connection, report: Report) -> None:
    """What autovacuum does within minutes."""
    connection.execute("VACUUM (ANALYZE)")
    query = """SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_partition_tree('alerts') AS t
        JOIN pg_class AS c ON c.oid = t.relid WHERE t.isleaf"""
    parts = connection.execute(query).fetchall()
    size = sum(size for _, size in parts)
    ledger = connection.execute("SELECT pg_total_relation_size('delivered')").fetchone()
    rows = connection.execute("SELECT count(*) FROM alerts").fetchone()
    each = size / rows[0] if rows else 0
    report.add(
        what="alerts on disk, with indices", result=f"{size / 2**30:.2f} GiB in {len(parts)} parts, {each:,.0f} B each"
    )
    report.add(what="the table of what was delivered", result=f"{(ledger[0] if ledger else 0) / 2**30:.2f} GiB")


def _ask(connection: Connection, total: int, report: Report, *, plans: bool) -> None:
    draw = random.Random(1)
    for name, question in QUESTIONS.items():
        times, rows, plan = [], 0, list[str]()
        for attempt in range(TRIES):
            text = question.format(**_drawn(draw, total))
            if attempt == TRIES - 1:
                explained = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF, BUFFERS OFF) {text}".encode()).fetchall()
                plan = [str(row[0]) for row in explained]
            began = time.monotonic()
            rows = len(connection.execute(text.encode()).fetchall())
            times.append((time.monotonic() - began) * 1000)
        used = sorted({part for line in plan for part in _indices(line)})
        report.add(what=name, result=f"{statistics.median(times):.1f} ms", first=f"{times[0]:.1f} ms", rows=rows)
        report.details[name] = {"plan": plan, "indices": used, "ms": times}
        if plans:
            print(f"\n{name}\n  " + "\n  ".join(line for line in plan if "never executed" not in line), flush=True)


def _indices(line: str) -> Iterator[str]:
    if " using " in line:
        yield line.partition(" using ")[2].split()[0]


def _drawn(draw: random.Random, total: int) -> dict[str, Any]:
    number, corrected, decided = (
        draw.randrange(total),
        draw.randrange(total) // 100 * 100,
        draw.randrange(total) // 5 * 5,
    )
    return {
        "account": f"acc{draw.randrange(1, ACCOUNTS):06d}",
        "hot": HOT,
        "day": instant_text(START_MS + draw.randrange(DAYS) * DAY_MS),
        "prefix": _id(number)[:8],
        "record": f"r{number}",
        "at": instant_text(_at(number, total) // 3_600_000 * 3_600_000),
        "corrected": _id(corrected),
        "at_corrected": instant_text(_at(corrected, total)),
        "decided": f"r{decided}",
    }


def delivery(batch_id: int, numbers: range, total: int) -> Delivery:
    """Alerts as a pipeline makes them, over a year, with what corrects some of them and what was decided."""
    draw = random.Random(numbers.start)
    alerts, decisions = list[dict[str, Any]](), list[dict[str, Any]]()
    for number in numbers:
        made = alert(number, total, draw)
        alerts.append(made)
        if number % 100 == 0:
            body = {"alert_id": _id(number + 2**40), "kind": "correction", "corrects": made["alert_id"]}
            alerts.append({**made, **body, "outcome": "retracted", "value": None, "caused_by": f"r{number + 1}"})
        if number % 5 == 0:
            decisions.append(decision(number, made, draw))
    return Delivery("bench", batch_id, alerts=alerts, decisions=decisions, figures={"records": len(numbers) * 100})


def alert(number: int, total: int, draw: random.Random) -> dict[str, Any]:
    """One alert of some 900 bytes."""
    at, account = instant_text(_at(number, total)), draw.randrange(1, ACCOUNTS) if number % 50 else 0
    count = draw.randrange(3, 12)
    return {
        "schema_version": 1,
        "alert_id": _id(number),
        "kind": "alert" if number % 10 else "shadow",
        "rule_id": f"rule_{number % RULES:02d}",
        "rule_version": 1 + number % 3,
        "rule_type": "velocity",
        "severity": ("low", "medium", "high", "critical")[number % 4],
        "score": 40,
        "action": ("review", "step_up", "block")[number % 3],
        "key": {"account_id": f"acc{account:06d}"},
        "stream": "payments",
        "record_id": f"r{number}",
        "event_time": at,
        "ingest_time": at,
        "value": count,
        "operator": ">=",
        "threshold": 3,
        "window_start": at,
        "window_end": at,
        "evidence": {"count": count, "record_ids": [f"r{number - back}" for back in range(count)][::-1]},
        "message": f"{count} payments by account acc{account:06d} in 60 s (line: 3)",
        "corrects": None,
        "detected_at": at,
        "delivered_at": None,
    }


def decision(number: int, made: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """The decision on the record of ``made``; every third allows."""
    named = {name: made[name] for name in ("rule_id", "rule_version", "action", "score", "alert_id", "message")}
    return {
        "schema_version": 1,
        "decision_id": _id(number + 2**41),
        "kind": "decision",
        "revision": 0,
        **{name: made[name] for name in ("stream", "record_id", "event_time", "ingest_time")},
        "decision": draw.choice(("allow", "step_up", "block")),
        "score": made["score"],
        "reasons": [named],
        "policy_version": 2,
        "rules_digest": "0" * 32,
        "decided_at": made["detected_at"],
        "answered": "exact",
        "degraded": [],
    }


def _at(number: int, total: int) -> int:
    return START_MS + number * DAYS * DAY_MS // total


def _id(number: int) -> str:
    return str(uuid.uuid5(NAMES, str(number)))


if __name__ == "__main__":
    main()
