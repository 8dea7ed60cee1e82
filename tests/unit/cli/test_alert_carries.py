"""The record that an alert carries, as `alerts show` and `alerts export` have it."""

import csv
import io
import json
from pathlib import Path

from crossline.io.sinks.base import Delivery

from .alertkit import alert
from .test_alerts import run_ok, store


def test_the_record_that_an_alert_carries_is_shown_and_exported(tmp_path: Path) -> None:
    record = {"account_id": "a1", "place": {"city": None, "lat": 59.9}, "tags": ["x"]}
    carried = alert("11aa0000-0000-5000-8000-000000000001", record=record)
    db = store(tmp_path / "carried.db", Delivery("p", 0, alerts=[carried]))
    shown = run_ok("show", "11aa", "--db", db).stdout.splitlines()
    first = next(number for number, line in enumerate(shown) if line.split()[:1] == ["carries"])
    assert [line.removeprefix("carries").strip() for line in shown[first : first + 4]] == [
        "account_id a1",
        "place.city missing",
        "place.lat 59.9",
        'tags ["x"]',
    ]
    (row,) = csv.DictReader(io.StringIO(run_ok("export", "--db", db, "--format", "csv").stdout))
    assert json.loads(row["record"]) == record
