"""Another account of the machine, in a project that it can list, gets at no key, no log and no socket of the API."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crossline.serve.access.keyfile import KeyFile

from .test_nobody import attacked

PIPELINE = """schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: api, path: in/payments}}
rules: {kind: directory, path: rules/}
sinks: [{kind: sqlite, path: out/alerts.db}]
policy: policy.yaml
serve: {keys: keys.db, path: out/serve}
"""
STREAM = """schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder that all can list: those of pytest nobody else gets into, and then all in them would be safe."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name, text in (
        ("pipeline.yaml", PIPELINE),
        ("stream.yaml", STREAM),
        ("policy.yaml", "schema_version: 1\nversion: 1\n"),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    (folder / "rules").mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def command(project: Path, *arguments: str) -> str:
    """As a user runs it who shares his files (``CROSSLINE_UMASK=022``)."""
    program = [
        sys.executable,
        "-m",
        "crossline.cli.main",
        "serve",
        *arguments,
        "--pipeline",
        str(project / "pipeline.yaml"),
    ]
    environment = {**os.environ, "CROSSLINE_UMASK": "022"}
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_account_reads_no_keys_and_logs(project: Path) -> None:
    command(project, "keys", "create", "--name", "shop", "--scope", "decide:payments")
    command(project, "keys", "rotate", "--name", "shop")
    private = [project / "keys.db", project / "out" / "serve" / "audit" / "audit.jsonl"]
    assert all(each.is_file() for each in private)
    sockets = project / "out" / "sockets"
    sockets.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as server, sqlite3.connect(project / "keys.db") as db:
        server.bind(str(sockets / "replica"))
        server.listen()
        db.execute("UPDATE keys SET used_ms = 1")  # its journal stands there too
        assert (project / "keys.db-journal").is_file()
        asked: dict[str, Any] = {"ports": [], "sockets": [str(sockets / "replica")], "folders": [str(project)]}
        with attacked(**asked) as found:
            got = {each.removeprefix("read ").removeprefix(f"{project}/") for each in found["got"]}
            assert "pipeline.yaml" in got  # it does read what it may
            assert (
                got & {"keys.db", "keys.db-journal", "out/serve/audit", "out/serve/audit/audit.jsonl", "out/sockets"}
                == set()
            )
            assert not any(each.startswith("connected") for each in found["got"])
        db.rollback()
    db.close()
    assert len(KeyFile(project / "keys.db").listed()) == 2
