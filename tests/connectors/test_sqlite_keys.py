"""Alert keys in a SQLite store: found by an index, also in stores of older versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.reader import StoreReader
from crossline.io.sqlite.sink import SqliteSink
from crossline.io.stores.protocol import AlertFilter

from .makers import alert


def test_keys_of_a_store_of_version_4_are_found_before_and_after_it_is_supplied_up(tmp_path: Path) -> None:
    path = tmp_path / "crossline.db"
    keys: list[dict[str, Any]] = [
        {"account_id": "a1"},
        {"account_id": "a2", "vip": True, "n": 7},
        {"account_id": None},
        {"account_id": "a1", "shop": {"id": 3}},
    ]
    wanted = {"a1": ("account_id", "a1", [0, 3]), "vip": ("vip", "true", [1]), "n": ("n", "7", [1]),
              "1": ("vip", "1", []), "none": ("account_id", "", [])}  # fmt: skip
    sink = SqliteSink(path, "p")
    sink.open()
    sink.deliver(Delivery("p", 0, alerts=[alert(f"t{number}", key=key) for number, key in enumerate(keys)]))
    sink.close()
    with closing(sqlite3.connect(path)) as connection:  # as version 4 had it
        for each in ("TRIGGER alerts_have_keys", "TABLE alert_keys", "INDEX decisions_by_time"):
            connection.execute(f"DROP {each}")
        connection.execute("UPDATE meta SET value = '4' WHERE name = 'schema_version'")
        connection.commit()

    def found() -> dict[str, list[int]]:
        with closing(StoreReader(path)) as reader:
            return {
                name: sorted(int(each["record_id"][1:]) for each in reader.alerts(AlertFilter(key={field: value})))
                for name, (field, value, _) in wanted.items()
            }

    expected = {name: numbers for name, (_, _, numbers) in wanted.items()}
    assert found() == expected
    sink = SqliteSink(path, "p")
    sink.open()
    assert found() == expected
    sink.deliver(Delivery("p", 0, alerts=[alert(f"t{number}", key=key) for number, key in enumerate(keys)]))
    sink.deliver(Delivery("p", 1, alerts=[alert("t9", key={"account_id": "a1"})]))
    sink.close()
    assert found() == {**expected, "a1": [0, 3, 9]}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM alert_keys").fetchone() == (7,)
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT body FROM alerts WHERE seq IN (SELECT seq FROM alert_keys WHERE field = 'a' "
            "AND value = 'b') ORDER BY event_time DESC, seq DESC LIMIT 20"
        ).fetchall()
    assert any("alert_keys USING PRIMARY KEY (field=? AND value=?)" in each[3] for each in plan), plan
