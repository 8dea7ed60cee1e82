"""Objectives and the health of the pipeline, as pages: full, empty, stale, and where something fails."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crossline.observe.run_health.report import ReplicaLag
from unit.observe.run_health.kit import end_of, minutes, promises, promising, run
from unit.serve.http.kit import NOW_MS, dependencies, project

from .working import seat, working

REPLICAS = (ReplicaLag(0, 7, 12, ready=True), ReplicaLag(1, None, None, ready=False))


@contextmanager
def promised(tmp_path: Path, watch: Any = None, *, filled: bool = True) -> Iterator[tuple[Any, str]]:
    """A room whose pipeline has objectives, and its name."""
    (tmp_path / "other").mkdir()
    plain = dependencies(project(tmp_path / "other"), tmp_path / "other").config
    config = promising(plain, tmp_path, watch)
    if filled:
        promises(config, end_of(NOW_MS), days=1)
        minutes(config, end_of(NOW_MS))
    with working(tmp_path, config=config, replicas=lambda: REPLICAS) as room:
        yield room, config.name


def text(page: str) -> str:
    """What is read, with single blanks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_promises_are_reported_with_what_is_left(tmp_path: Path) -> None:
    with promised(tmp_path) as (room, name):
        at = seat(room, "vera.lux")
        moved = at.get("/objectives")
        assert (moved.status_code, moved.headers["location"]) == (303, f"/objectives/{name}")
        page = at.get(f"/objectives/{name}").text
        found = text(page)
        assert "Availability of the API 99.95 % of requests without a fault 98 % missed 99.82 % missed" in found
        # Of 1,439 minutes 4,760 and 330 requests failed, where 1,439 may.
        assert "none, 253.71 % over" in found
        assert '<b class="c-crit">98 %</b>' in page
        # A day of 30 is known, and what is known of it is good: that does not say that 30 days are kept.
        assert "Latency of alerts 99 % of alerts within 250 ms 99.6 % kept 99.6 % kept 99.6 % not known 60 %" in found
        assert 'title="59 of 60 minutes' not in page
        assert 'title="60 of 60 minutes; 60 of 60 minutes are known"' in page
        assert "29 d" in found
        assert at.get("/objectives/other").status_code == 404
        assert "Objectives</a>" in page


def test_a_budget_that_burns_is_reported_first(tmp_path: Path) -> None:
    with promised(tmp_path) as (room, name):
        found = text(seat(room, "vera.lux").get(f"/objectives/{name}").text)
        # 2 % of the last two hours failed, where 0.05 % may; of a day 3.5 times as many as may.
        burns = "its budget burns 40 times as fast as it may, over 1h and 5m; 4 of 4 pairs of windows say so."
        assert f"Availability of the API: {burns}" in found


def test_nothing_promised_says_what_to_do(tmp_path: Path) -> None:
    with working(tmp_path) as room:
        name = room.parts.deps.config.name
        found = text(seat(room, "vera.lux").get(f"/objectives/{name}").text)
        assert "Nothing is promised. Write a section slo into pipeline.yaml" in found
        assert "How the pipeline runs" in found


def test_a_file_that_cannot_be_read_leaves_the_page(tmp_path: Path) -> None:
    with promised(tmp_path, filled=False) as (room, name):
        at = seat(room, "vera.lux")
        (tmp_path / "slo.db").write_text("no database, and long enough to be looked at")
        (tmp_path / "slo.db").chmod(0o600)
        answer = at.get(f"/objectives/{name}")
        assert answer.status_code == 200
        assert "The objectives cannot be read now:" in text(answer.text)
        assert "found what is no database" in text(at.get(f"/health/{name}/pipeline").text)


def test_a_run_that_answers(tmp_path: Path) -> None:
    name = dependencies(project(tmp_path), tmp_path).config.name
    with run(name, NOW_MS / 1000, held=True) as watch, promised(tmp_path / "room", watch) as (room, _):
        page = seat(room, "vera.lux").get(f"/health/{name}/pipeline").text
    found = text(page)
    assert "does not keep up" in found
    assert "The run does not keep up: sink kafka has not accepted the batch" in found
    assert "A batch takes 100 ms" in found
    assert "limit 200 ms last hour; 80 ms yesterday" in found
    assert "6 alert above 1,728,000 24 h; 0 yesterday" in found
    assert "missing_field payments 3" in found
    assert "Checkpoint's share of batches, last hour 9 % objective 10 %, 5 % yesterday" in found
    assert "2 has no state yet" in found
    assert "Waits in payments 40 records" in found
    assert f'href="/objectives/{name}"' in page


@pytest.fixture(autouse=True)
def rooms(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()


def test_without_a_run_its_values_are_unknown(tmp_path: Path) -> None:
    with promised(tmp_path) as (room, name):
        at = seat(room, "vera.lux")
        found = text(at.get(f"/health/{name}/pipeline").text)
        assert "No run reports its state: the pipeline file has no section watch" in found
        assert "Lag unknown objective 5 s now" in found
        assert found.count("Unknown: no run answers.") == 2
        assert "No minute was written since" not in found
        room.clock.now_ms += 600_000
        assert "No minute was written since 09:15:00 ." in text(at.get(f"/health/{name}/pipeline").text)
        assert at.get("/health/other/pipeline").status_code == 404


def test_a_pipeline_without_watch_and_minutes(tmp_path: Path) -> None:
    with working(tmp_path) as room:
        name = room.parts.deps.config.name
        found = text(seat(room, "vera.lux").get(f"/health/{name}/pipeline").text)
        assert "No minutes are kept: the pipeline file has no section slo" in found
        assert "This API has no replica." in found
