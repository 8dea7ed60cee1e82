"""Liveness and readiness of a run, and their reasons."""

from __future__ import annotations

import pytest

from crossline.observe.watch.health import HealthStatus, RunProgress, keeps_up, lives
from crossline.observe.watch.run_figures import SinkFigures
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog

ALIVE = HealthStatus((), {"state": "running"})
STARTED = PipelineStatus(started=True, rules={"active": 2})
SOME = [SourceBacklog("s", "bytes", 1_000_000)]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"started": False, "alive": None}, None),
        ({"started": True, "alive": None}, None),
        ({"started": True, "alive": True}, None),
        ({"started": True, "alive": True, "silent_s": 9.0}, None),
        ({"started": True, "alive": True, "silent_s": 11.0}, "Java has not answered for 11 s"),
        ({"started": True, "alive": False}, "the query is dead: see the log of the run"),
        ({"started": True, "alive": True, "stopped": True}, "the pipeline has ended"),
    ],
)
def test_whether_it_lives(given: dict[str, float | None], reason: str | None) -> None:
    answer = lives(**{"silent_s": 0.0, "stopped": False, **given})  # type: ignore[arg-type]
    assert answer.reasons == (() if reason is None else (reason,))
    assert answer.ok is (reason is None)


def reasons(
    standing: PipelineStatus = STARTED,
    *,
    last_batch_s: float | None = 900.0,
    waiting: list[SourceBacklog] | None = None,
    sinks: dict[str, SinkFigures] | None = None,
) -> tuple[str, ...]:
    progress = RunProgress(now_s=1_000.0, since_s=500.0, last_batch_s=last_batch_s, within_s=60.0)
    return keeps_up(ALIVE, standing, progress, waiting or [], sinks or {}).reasons


def test_whether_it_keeps_up() -> None:
    assert reasons() == (), "nothing waits"
    assert reasons(waiting=[SourceBacklog("s", "bytes", 0), SourceBacklog("t", "records", None, "no answer")]) == ()
    assert reasons(last_batch_s=941.0, waiting=SOME) == ()
    slow = "no batch for 100 s, expected one within 60, while 1,000,000 bytes of s wait"
    assert reasons(waiting=SOME) == (slow,)
    assert reasons(last_batch_s=None, waiting=SOME) == (slow.replace("100", "500"),)
    assert reasons(PipelineStatus(started=False)) == ("it is starting: its rules are not loaded yet",)


def test_a_batch_that_runs_has_its_time() -> None:
    assert reasons(PipelineStatus(started=True, batch_began_s=950.0), waiting=SOME) == ()
    found = reasons(PipelineStatus(started=True, batch_began_s=900.0), waiting=SOME)
    assert found == ("a batch has been running for 100 s, expected at most 60",)


def test_a_sink_that_is_down_is_named() -> None:
    sinks = {"sqlite": SinkFigures(), "kafka": SinkFigures(behind_since_s=990.0)}
    assert reasons(sinks=sinks) == ("sink kafka has not accepted the batch for 10 s",)


def test_who_does_not_live_is_not_ready() -> None:
    dead = HealthStatus(("the query is dead",))
    assert keeps_up(dead, STARTED, RunProgress(1.0, 0.0, None, 60.0), [], {}) is dead
    assert dead.to_json() == {"ok": False, "reasons": ["the query is dead"]}
