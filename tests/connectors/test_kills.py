"""SIGKILL in the midst of deliveries, again and again: every alert once, in order."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

BATCHES, SIZE, KILLS = 300, 200, 6
AHEAD = 10  # how many batches it may be ahead of its killer, who may be slow
TESTS = Path(__file__).parent.parent


def stored(kind: str, path: Path) -> list[str]:
    if kind == "jsonl":
        return [json.loads(line)["record_id"] for line in path.read_text().splitlines()]
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT record_id FROM alerts ORDER BY seq")]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "behind"])
def test_every_alert_once_over_kills(kind: str, tmp_path: Path) -> None:
    path, commits = tmp_path / "alerts", tmp_path / "commits"
    module = "connectors.deliver_until_done"
    command = [sys.executable, "-m", module, kind, str(path), str(commits), str(BATCHES), str(SIZE)]
    draw = random.Random(kind)
    for _ in range(KILLS):
        with subprocess.Popen(command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            count = draw.randint(2, 30)
            process.stdin.write(b"go\n" * (count + AHEAD))
            process.stdin.flush()
            for _ in range(count):
                process.stdout.readline()
            process.kill()
    assert int(commits.read_text()) < BATCHES - 1, "it was done before the last kill: nothing was tested"
    subprocess.run(command, cwd=TESTS, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert stored(kind, path) == [f"{batch}-{i}" for batch in range(BATCHES) for i in range(SIZE)]
