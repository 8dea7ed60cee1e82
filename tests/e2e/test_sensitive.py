"""A pipeline with sensitive fields: what it writes, anywhere, has no value of them; its alerts are those of values."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from .project import Project
from .traffic import RULES, STREAM, STREAMS, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SENSITIVE = {"account": {}, "kind": {"person": "account"}}
# Rules that compare a value with a text of their own are not meant here.
OF_KEYS = [each for each in RULES if "cash" not in str(each) and each["source_topic"] == STREAM]


def about(project: Project) -> list[tuple[object, ...]]:
    names = ("rule_id", "record_id", "event_time", "value", "window_start", "window_end")
    found = [(*(a[name] for name in names), str(a["evidence"]["record_ids"])) for a in project.alerts().values()]
    return sorted(found, key=str)


def test_nothing_that_a_run_writes_has_a_value(tmp_path: Path, spark: SparkSession) -> None:
    log = [{**each, "account": f"secret-{each['account']}"} for each in records(300, seed=11)]
    broken = b'{"id": "torn", "account": "secret-a1"\n{"id": "typed", "account": ["secret-a1"]}\n'
    plain, made = Project(tmp_path / "plain", OF_KEYS), Project(tmp_path / "tokens", OF_KEYS, streams="sensitive.yaml")
    streams = {STREAM: {**STREAMS[STREAM], "sensitive": SENSITIVE}}
    tokens = {"path": "keys/tokens.db", "master_key_file": "master.key"}
    (made.root / "sensitive.yaml").write_text(
        yaml.safe_dump({"schema_version": 1, "streams": streams, "tokens": tokens})
    )
    (made.root / "master.key").write_text(secrets.token_hex(32))
    for project in (plain, made):
        project.give("log.jsonl", lines(log) + broken)
        project.drain(spark)
    assert about(made) == about(plain)
    assert made.dead() == plain.dead()
    assert made.late() == plain.late() != []
    assert {reason for reason, _ in made.dead()} >= {"malformed_json", "wrong_type", "duplicate_id"}
    written = [each for each in made.root.rglob("*") if each.is_file() and each.parent != made.root / "in"]
    assert made.store in written
    assert made.root / "keys" / "tokens.db" in written
    assert [str(each) for each in written if b"secret-" in each.read_bytes()] == []
    assert any(b"tok_" in each.read_bytes() for each in written)
