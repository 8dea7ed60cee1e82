"""``crossline alerts`` and ``crossline decisions`` say the same of a SQLite file and of PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from dev.services.postgres import LocalPostgres
from typer.testing import CliRunner, Result

from crossline.basics.errors import CrosslineError, PermanentError, UsageError
from crossline.cli import decisions
from crossline.cli.alerts import command as alerts
from crossline.io.postgres.client import address_of
from crossline.io.postgres.sink import PostgresSink
from crossline.io.sinks.base import Delivery, build_sink
from crossline.io.sqlite.sink import SqliteSink
from crossline.settings.postgres import PostgresSettings

from .alertkit import ALERTS, DEAD, alert

DELIVERED_MS = 1_767_225_607_500
PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {{payments: {{kind: files, path: in/*.jsonl}}}}
rules: {{kind: directory, path: rules/}}
sinks: [{sink}]
"""
STREAM = """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer}
"""


def decision(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "decision_id": f"{name}d000000-0000-5000-8000-000000000001",
        "kind": "decision",
        "revision": 0,
        "stream": "payments",
        "record_id": f"t{name}",
        "decision": "block",
        "score": 70,
        "reasons": [
            {
                "rule_id": "card_burst",
                "rule_version": 3,
                "action": "block",
                "score": 70,
                "alert_id": "11aa",
                "message": "10 \x1b[2J",
            }
        ],
        "policy_version": 2,
        "event_time": f"2026-01-01T00:00:0{name}.000Z",
        "ingest_time": "2026-01-01T00:00:09.500Z",
        "decided_at": "2026-01-01T00:00:09.600Z",
        **changes,
    }


DECISIONS = [
    decision("1"),
    decision("2", decision="allow", score=0, reasons=[]),
    decision(
        "9",
        record_id="t1",
        kind="revision",
        revision=1,
        revises=decision("1")["decision_id"],
        because="3c000000-0000-5000-8000-000000000004",
        decision="review",
        event_time=decision("1")["event_time"],
    ),
]
CORRECTION = alert(
    "3c000000-0000-5000-8000-000000000004",
    kind="correction",
    corrects=ALERTS[0]["alert_id"],
    outcome="retracted",
    caused_by="t9",
    value=None,
)
BATCH = Delivery("payments", 0, alerts=[*ALERTS, CORRECTION], dead=DEAD, decisions=DECISIONS)


def run(*arguments: object) -> Result:
    app = typer.Typer()
    alerts.register(app)
    decisions.register(app)
    return CliRunner().invoke(app, [*map(str, arguments)])


def stdout_of(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refused(*arguments: object) -> CrosslineError:
    error = run(*arguments).exception
    assert isinstance(error, CrosslineError), error
    return error


@pytest.fixture
def stores(
    tmp_path: Path, postgres_server: LocalPostgres, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """``--db`` of the same deliveries in a file and in PostgreSQL."""
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    path, clock = tmp_path / "crossline.db", lambda: DELIVERED_MS
    given = {"host": postgres_server.host, "port": postgres_server.port, "user": postgres_server.user}
    more = {"password_env": "PGPASSWORD", "schema": postgres_schema}
    settings = PostgresSettings.model_validate({"kind": "postgres", **given, **more})
    for sink in (SqliteSink(path, "payments", clock_ms=clock), PostgresSink(address_of(settings), "payments", clock)):
        sink.open()
        sink.deliver(BATCH)
        sink.close()
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "rules").mkdir()
    shown = ", ".join(f"{name}: {value}" for name, value in {"kind": "postgres", **given, **more}.items())
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(sink=f"{{{shown}}}"))
    return str(path), f"{postgres_server.url}?schema={postgres_schema}"


COMMANDS = [
    ["alerts", "list"],
    ["alerts", "list", "--json", "--limit", "2"],
    ["alerts", "list", "--limit", "1"],
    ["alerts", "list", "--key", "vip=true"],
    ["alerts", "list", "--since", "2026-01-01T00:00:08Z", "--until", "2026-01-01T00:00:09Z"],
    ["alerts", "show", "11aa", "--no-records"],
    ["alerts", "show", "11aa", "--no-records", "--json"],
    ["alerts", "show", "3c", "--no-records"],
    ["alerts", "export"],
    ["alerts", "export", "--format", "csv", "--kind", "alert"],
    ["alerts", "dead"],
    ["alerts", "dead", "--json", "--reason", "bad_json"],
    ["decisions", "list"],
    ["decisions", "list", "--json"],
    ["decisions", "list", "--not-allowed", "--limit", "1"],
    ["decisions", "list", "--decision", "allow", "--json"],
    ["decisions", "show", "1d"],
    ["decisions", "show", "t1", "--json"],
]


def test_both_say_the_same(stores: tuple[str, str], tmp_path: Path) -> None:
    for command in COMMANDS:
        in_file, in_postgres = (stdout_of(*command, "--db", db) for db in stores)
        assert in_file, command
        assert in_postgres == in_file, command
        assert stdout_of(*command, "--pipeline", tmp_path / "pipeline.yaml") == in_file, command


def test_a_decision_is_reported_with_its_reasons_and_what_became_of_it(stores: tuple[str, str]) -> None:
    for name in ("1d", "9d", "t1"):  # the decision, its revision, the record
        shown = stdout_of("decisions", "show", name, "--db", stores[0])
        assert shown.index("block  t1 of payments") < shown.index("review  t1 of payments")
        assert "card_burst@3 asks for block (score 70): 10 \\x1b[2J" in shown
        assert f"{DECISIONS[0]['decision_id']}, because of 3c000000-0000-5000-8000-000000000004" in shown
    listed = [
        json.loads(line)["decision_id"][:2]
        for line in stdout_of("decisions", "list", "--json", "--db", stores[0]).splitlines()
    ]
    assert listed == ["2d", "9d", "1d"]
    table = stdout_of("decisions", "list", "--db", stores[0]).splitlines()
    assert table[0].split() == ["id", "happened", "decision", "score", "record", "why"]
    assert "review (revision 1)" in table[2]
    rows_text = " ".join(stdout_of("decisions", "list", "--db", stores[0]).split())
    assert "revised: alert of card_burst@3 retracted by record t9" in rows_text


def test_what_is_not_there_is_reported(stores: tuple[str, str], tmp_path: Path) -> None:
    file, url = stores
    assert "no decision in " in str(refused("decisions", "show", "x", "--db", url))
    assert "3 decisions: see crossline decisions list" in str(refused("decisions", "show", "x", "--db", file))
    assert "no decision matches; the store has 3" in run("decisions", "list", "--record", "x", "--db", url).stderr
    assert f"no alert in {url} has an id" in str(refused("alerts", "show", "x", "--db", url))
    assert isinstance(refused("decisions", "list"), UsageError)
    assert isinstance(refused("decisions", "list", "--db", file, "--pipeline", tmp_path / "pipeline.yaml"), UsageError)
    away = url.replace("@127.0.0.1", "@127.0.0.1:1,127.0.0.1").replace(":1,127.0.0.1:", ":1/x?a=")
    assert isinstance(refused("alerts", "list", "--db", away), PermanentError)


def test_no_password_is_reported(
    stores: tuple[str, str], postgres_server: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = postgres_server.password
    with_secret = stores[1].replace("://crossline@", f"://crossline:{secret}@")
    error = refused("alerts", "list", "--db", with_secret)
    assert isinstance(error, UsageError)
    assert "set PGPASSWORD" in str(error)
    monkeypatch.setenv("PGPASSWORD", "wrong")
    refusal = refused("alerts", "list", "--db", stores[1])
    assert "see that user and password are right" in str(refusal)
    assert secret not in str(error) + str(refusal)


def test_a_store_before_decisions_has_none(tmp_path: Path) -> None:
    sink = build_sink({"kind": "sqlite", "path": str(tmp_path / "a.db")}, "p")
    sink.open()
    sink.close()
    result = run("decisions", "list", "--db", tmp_path / "a.db")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "has no decisions yet" in result.stderr
    assert "it has none at all" in str(refused("decisions", "show", "x", "--db", tmp_path / "a.db"))
