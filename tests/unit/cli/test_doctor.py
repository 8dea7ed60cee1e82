"""``crossline doctor`` on made-up machines: its findings and its exit code."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner

from crossline.basics.errors import PermanentError
from crossline.cli.doctor import command as doctor
from crossline.cli.doctor import machine as doctor_machine
from crossline.runtime.machine.java import Java

STREAMS = """schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer}
"""
PIPELINE = """schema_version: 1
name: payments
streams: stream.yaml
sources:
  payments: {kind: kafka, brokers: "@brokers@", topic: payments}
rules: {kind: directory, path: rules}
sinks: [{kind: console}]
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with a Java and an empty cache folder."""
    monkeypatch.setenv("CROSSLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor_machine, "find_java", lambda: Java(Path("/java"), "17.0.1", "system"))


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    app = typer.Typer()
    app.callback()(lambda: None)
    doctor.register(app)
    result = CliRunner().invoke(app, ["doctor", "--json", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    value = orjson.loads(result.stdout)
    return result.exit_code, {finding["name"]: finding for finding in value["findings"]}


def fill(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars of ``group`` stand in the cache, as empty files that the check takes for the right ones."""
    store = doctor_machine.default_store()
    (store.folder / group).mkdir(parents=True, exist_ok=True)
    for pin in store.of_group(group):
        store.place(pin).touch()
    monkeypatch.setattr(doctor_machine, "ensure_jars", lambda _group: [])


def test_what_is_missing_makes_exit_one_and_says_how_to_get_it() -> None:
    code, findings = run()
    assert code == 1
    assert findings["jars local-fs"]["status"] == "missing"
    assert findings["jars local-fs"]["found"].startswith("0 of 1 in ")
    assert "make setup" in findings["jars local-fs"]["advice"]
    assert findings["jars spark-kafka"]["status"] == "warning"
    assert findings["jars broker"]["advice"].startswith("run `make test` once")


def test_all_that_is_needed_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    fill("local-fs", monkeypatch)
    code, findings = run()
    assert code == 0
    assert findings["jars local-fs"]["status"] == "ok"
    assert findings["java"]["found"] == "17.0.1 of this machine (/java)"
    assert findings["loopback ports"]["status"] == "ok"
    assert all(finding["advice"] for finding in findings.values())


def test_a_jar_that_is_not_the_pinned_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure = doctor_machine.ensure_jars
    fill("local-fs", monkeypatch)
    monkeypatch.setattr(doctor_machine, "ensure_jars", ensure)
    code, findings = run()
    assert code == 1
    assert "is not the jar that crossline was tested with" in findings["jars local-fs"]["found"]


def test_without_java_the_finding_carries_the_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Java:
        raise PermanentError("no Java 17 or 21: found none; set JAVA_HOME")

    monkeypatch.setattr(doctor_machine, "find_java", none)
    code, findings = run()
    assert code == 1
    assert findings["java"] == {
        "name": "java",
        "status": "missing",
        "found": "no Java 17 or 21: found none",
        "advice": "set JAVA_HOME",
    }


def test_a_version_besides_the_lock_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine, "locked_versions", lambda: {"numpy": {"1.0.0", "1.1.0"}})
    _, findings = run()
    assert findings["package numpy"]["status"] == "warning"
    assert findings["package numpy"]["found"].endswith("; the lock has 1.0.0 or 1.1.0")
    assert findings["package orjson"]["status"] == "ok"


def test_the_lock_is_read() -> None:
    locked = doctor_machine.locked_versions()
    assert locked["pyspark"] == {"4.1.3"}
    assert len(locked["numpy"]) >= 1


def test_a_broker_that_does_not_answer_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossline.cli.doctor.kafka._ASK_S_MAX", 0.2)
    fill("local-fs", monkeypatch)
    fill("spark-kafka", monkeypatch)
    with socket.socket() as unanswered:  # bound, and not listening
        unanswered.bind(("127.0.0.1", 0))
        brokers = f"127.0.0.1:{unanswered.getsockname()[1]}"
        (tmp_path / "stream.yaml").write_text(STREAMS)
        (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("@brokers@", brokers))
        code, findings = run("--pipeline", str(tmp_path / "pipeline.yaml"))
    assert code == 1
    assert findings["jars spark-kafka"]["status"] == "ok"
    assert findings[f"kafka {brokers}"]["status"] == "missing"
    assert "topic payments" not in findings


def test_the_table_has_a_line_for_each_finding() -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    doctor.register(app)
    lines = CliRunner().invoke(app, ["doctor"]).stdout.splitlines()
    assert lines[0].split() == ["what", "state", "found", "to", "do"]
    assert any(line.startswith("jars local-fs") and "missing" in line for line in lines)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_fits_the_screen(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    app = typer.Typer()
    app.callback()(lambda: None)
    doctor.register(app)
    text = CliRunner().invoke(app, ["doctor"]).stdout
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    assert "make setup" in " ".join(text.split())
