"""A model that fails at a record degrades that record, and no other one of its call."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import helper
from tests.oracle.replicated import Pipeline
from tests.unit.rules.onnxkit import model

from crossline.basics.models.processes import HERE
from crossline.serve.decisions.values import RecordVerdict
from crossline.serve.replica.overlay import Laid, StateOverlay, overlay_snapshot
from crossline.serve.replica.replicas import Replicas

from .conftest import BURST, START_MS, STREAM, Asks, lines, ready, snapshot_of

# The logarithm: of what is negative it is no number.
LOG = base64.b64encode(model([helper.make_node("Log", ["x"], ["y"])], 1)).decode()
SCORED: dict[str, Any] = {
    "rule_id": "scored",
    "version": 1,
    "rule_type": "model",
    "source_topic": STREAM,
    "model": "log.onnx",
    "model_data": LOG,
    "figures": {"tries": {"count": True, "group_by": "account", "window": "60s"}},
    "features": {"amount": "amount"},
    "conditions": [{"field": "amount", "operator": "!=", "value": 7}],
    "threshold": 3,
    "action": "block",
}
IN_PANES = {**SCORED, "figures": {"tries": {"count": True, "group_by": "account", "window": "60s", "resolution": "1s"}}}
AGAIN = {**SCORED, "late_policy": "reevaluate", "watermark_delay": "1s", "allowed_lateness": "5s"}
OFTEN = {**BURST, "rule_id": "often", "aggregation_threshold": 1, "emit": "every", "emit_to_sink": False}
OF_HITS = {
    **{name: value for name, value in SCORED.items() if name != "conditions"},
    "rule_id": "above",
    "source_topic": "rule:often",
    "features": {"left": "3 - tries"},
}


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    HERE.close()


def judged(*bodies: dict[str, Any], amounts: tuple[int, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """What is decided about payments of these amounts, judged in one call, and what could not judge each."""
    overlay = StateOverlay(overlay_snapshot(snapshot_of(BURST, *bodies)), {})
    laid = []
    for number, amount in enumerate(amounts):
        at_ms = START_MS + 1_000 * number
        fields = {"id": f"t{number}", "account": f"a{number % 2}", "amount": amount, "at": at_ms}
        laid.append(Laid(STREAM, f"t{number}", json.dumps(fields).encode(), at_ms))
    found = overlay.judge(laid)
    assert all(each.decision is not None for each in found)
    return [((each.decision or {})["decision"], tuple(part for part, _ in each.degraded)) for each in found]


@pytest.mark.parametrize("rule", [SCORED, IN_PANES], ids=["windows", "panes"])
def test_the_record_alone_is_degraded_at_which_the_model_fails(rule: dict[str, Any]) -> None:
    """Worked by hand: e^3 is 20.09; the rule does not look at 7; the model fails at -1 and -5."""
    assert judged(rule, amounts=(100, -1, 7, 20, -5, 21)) == [
        ("block", ()),
        ("allow", ("rule:scored",)),
        ("allow", ()),
        ("allow", ()),
        ("review", ("rule:scored",)),  # the third of its account
        ("block", ()),
    ]


def test_two_models_that_fail_at_different_records() -> None:
    other = {**SCORED, "rule_id": "other", "features": {"amount": "0 - amount"}}
    assert [parts for _, parts in judged(SCORED, other, amounts=(5, -5, 7))] == [
        ("rule:other",),
        ("rule:scored",),
        (),
    ]


def test_a_rule_that_judges_again_degrades_all_that_came_with_the_record() -> None:
    """Its kernel asks the model about rows of before, too, in an order of its own."""
    assert [parts for _, parts in judged(AGAIN, amounts=(100, -1, 30))] == [("rule:scored",)] * 3
    assert [parts for _, parts in judged(AGAIN, amounts=(100, 1, 30))] == [()] * 3


def test_a_rule_of_hits_degrades_the_record_that_was_hit() -> None:
    """Worked by hand: of each account the third hit is at 3 - 3, of which there is no logarithm."""
    found = [parts for _, parts in judged(OFTEN, OF_HITS, amounts=(1,) * 7)]
    assert found == [(), (), (), (), ("rule:above",), ("rule:above",), ("rule:above",)]


def models_below(pid: int) -> list[int]:
    """The processes of models that process ``pid`` has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((each / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if parent == pid and "models.session" in (each / "cmdline").read_text(encoding="utf-8"):
                found.append(int(each.name))
        except (OSError, ValueError):
            continue  # it ended meanwhile
    return found


def test_forks_ask_the_models_that_their_follower_started(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.publish(snapshot_of(SCORED))

    async def play() -> None:
        replicas = Replicas(str(pipeline.folder))
        await replicas.start()
        try:
            seen = set()
            for batch in range(-1, 3):
                await ready(replicas, batch)
                good, bad = await replicas.judge([asks.record(amount=100), asks.record(amount=-1)])
                assert isinstance(good, RecordVerdict)
                assert isinstance(bad, RecordVerdict)
                assert (good.decision["decision"], good.degraded) == ("block", ())
                assert [each.part for each in bad.degraded] == ["rule:scored"]
                (follower,) = replicas._followers.pids()
                seen |= {*models_below(follower)}
                assert [models_below(each.pid) for each in replicas._forks.values()] == [[]]
                pipeline.batch(lines([asks.record()]))
            assert len(seen) == 1
        finally:
            await replicas.close()

    asyncio.run(asyncio.wait_for(play(), 90))
