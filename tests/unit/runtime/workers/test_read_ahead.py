"""When states are read before Spark is there, and when there is nothing to read, or nobody to read it rightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossline.runtime.workers import read_ahead
from crossline.runtime.workers.read_ahead import begin_reading


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What forks of the zygote are asked for, of a checkpoint in ``tmp_path`` that has done batches 0 to 6."""
    found: list[dict[str, Any]] = []

    class Connection:
        def close(self) -> None:
            """Nobody waits."""

    def request(path: str, module: str, arguments: list[str], _: list[int]) -> Connection:
        assert (path, module) == ("zygote", "crossline.runtime.workers.read_ahead")
        found.append(json.loads(*arguments))
        return Connection()

    monkeypatch.setattr(read_ahead, "request_fork", request)
    monkeypatch.setattr(read_ahead, "processors", lambda: 6)
    (tmp_path / "snapshot.json").write_text("{}")
    for log in ("offsets", "commits"):
        (tmp_path / "spark" / log).mkdir(parents=True)
        (tmp_path / "spark" / log / "6").touch()
    (tmp_path / "spark" / "metadata").write_text('{"id": "q"}')
    return found


def begin(folder: Path, master: str | None = "local[2]") -> bool:
    return begin_reading(Path("zygote"), str(folder), "state", master)


@pytest.mark.parametrize(
    ("master", "cores"), [(None, 6), ("local", 1), ("local[*]", 6), ("local[3]", 3), ("local[4,2]", 4)]
)
def test_the_next_batch_is_read_for_by_as_many_as_judge_it(
    tmp_path: Path, asked: list[dict[str, Any]], master: str | None, cores: int
) -> None:
    assert begin(tmp_path, master)
    snapshot = str(tmp_path / "snapshot.json")
    assert asked == [{"snapshot": snapshot, "root": "state", "query_id": "q", "batch_id": 7, "cores": cores}]


def test_a_batch_that_was_cut_off_is_the_next(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    (tmp_path / "spark" / "offsets" / "7").touch()
    (tmp_path / "spark" / "offsets" / "8").touch()
    (tmp_path / "spark" / "commits" / "7").touch()
    assert begin(tmp_path)
    assert asked[0]["batch_id"] == 8


@pytest.mark.parametrize("gone", ["snapshot.json", "spark/commits/6", "spark/metadata"])
def test_a_checkpoint_without_a_batch_has_nothing_to_read(
    tmp_path: Path, asked: list[dict[str, Any]], gone: str
) -> None:
    (tmp_path / "spark" / "offsets" / "6").rename(tmp_path / "spark" / "offsets" / "0")
    (tmp_path / gone).unlink()
    assert not begin(tmp_path)
    assert not asked


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "local-cluster[2,1,1024]"])
def test_executors_read_for_themselves(tmp_path: Path, asked: list[dict[str, Any]], master: str) -> None:
    assert not begin(tmp_path, master)
    assert not asked
