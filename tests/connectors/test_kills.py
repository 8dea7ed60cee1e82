"""SIGKILL during deliveries, repeatedly: every alert once, in order."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crossline.io.postgres.client import address_of
from crossline.settings.postgres import PostgresSettings

from .postgres_kit import rows, settings_of

# Batches, alerts a batch, kills.
SIZES = {"sqlite": (300, 200, 6), "jsonl": (300, 200, 6), "behind": (300, 200, 6), "postgres": (140, 20, 4)}
AHEAD = 10  # how many batches it may be ahead of its killer, who may be slow
TESTS = Path(__file__).parent.parent
KINDS = [
    *("sqlite", "jsonl", "behind"),
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
]


def settings(kind: str, request: pytest.FixtureRequest, path: Path) -> dict[str, Any]:
    if kind == "behind":
        return {"kind": "sqlite", "path": str(path), "behind": True}
    if kind != "postgres":
        return {"kind": kind, "path": str(path)}
    server, schema = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_schema")
    return settings_of(server, schema).model_dump(by_alias=True, exclude_none=True)


def stored(sink: Mapping[str, Any]) -> list[str]:
    if sink["kind"] == "jsonl":
        return [json.loads(line)["record_id"] for line in Path(sink["path"]).read_text().splitlines()]
    query = "SELECT record_id FROM alerts ORDER BY seq"
    if sink["kind"] == "postgres":
        return [row[0] for row in rows(address_of(PostgresSettings.model_validate(sink)), query)]
    with closing(sqlite3.connect(sink["path"])) as connection:
        return [row[0] for row in connection.execute(query)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_alert_once_over_kills(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    commits, sink = tmp_path / "commits", settings(kind, request, tmp_path / "alerts")
    batches, size, kills = SIZES[kind]
    module = "connectors.deliver_until_done"
    command = [sys.executable, "-m", module, json.dumps(sink), str(commits), str(batches), str(size)]
    draw = random.Random(kind)
    for _ in range(kills):
        with subprocess.Popen(command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            count = draw.randint(2, 20)
            process.stdin.write(b"go\n" * (count + AHEAD))
            process.stdin.flush()
            for _ in range(count):
                process.stdout.readline()
            process.kill()
    assert int(commits.read_text()) < batches - 1, "it was done before the last kill: nothing was tested"
    subprocess.run(command, cwd=TESTS, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert stored(sink) == [f"{batch}-{i}" for batch in range(batches) for i in range(size)]
