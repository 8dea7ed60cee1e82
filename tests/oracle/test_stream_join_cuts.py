"""Rules of several streams and keys give the same output over any batches, shards and restarts, with duplicates."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
import yaml

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from e2e.levels import BOTH, RULES, Log, made

from .fastpath import FastPath
from .strategies import Record

EXAMPLES = 300 if os.environ.get("CROSSLINE_DEEP") == "1" else 4


@pytest.fixture(scope="module")
def plans() -> list[StreamPlan]:
    streams = load_streams(yaml.safe_dump({"schema_version": 1, "streams": BOTH}), "stream.yaml")
    loaded = load_rules_text(yaml.safe_dump(RULES), "rules.yaml", streams)
    rules = RuleSet.from_rules(item.rule for item in loaded)
    return list(compile_all(rules, streams, Defaults("event_time", 5_000, 20_000)).values())


def with_ids_again(log: Log, draw: random.Random) -> Log:
    """A third of the records has the id of one shortly before it, and all else of its own."""
    found = list(log)
    for place, (ms, stream, record) in enumerate(log):
        before = [each for _, name, each in found[max(0, place - 12) : place] if name == stream]
        if before and draw.random() < 0.35:
            found[place] = (ms, stream, {**record, "id": draw.choice(before)["id"]})
    return found


def at(ingest_ms: int, _: str, record: Record) -> Record:
    """The record as the fast path takes it."""
    return {**record, "_id": record["id"], "_event_ms": record["event_time"], "_ingest_ms": ingest_ms}


def comparable(path: FastPath) -> list[dict[str, Any]]:
    return sorted(path.alerts, key=lambda each: str(each["alert_id"]))


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_what_is_reported_depends_on_the_records_alone(plans: list[StreamPlan], seed: int) -> None:
    draw = random.Random(seed)
    log = with_ids_again(made(draw.choice([30, 60]), seed), draw)
    streams = {name: name for name in BOTH}
    whole, cut = (FastPath.of(plans, shards, Bounds(60_000)) for shards in (1, draw.randint(1, 4)))
    whole.streams, cut.streams = streams, streams
    # What is of one instant is read together.
    goes_on = [place for place in range(1, len(log)) if log[place][0] > log[place - 1][0]]
    ends = sorted(draw.sample(goes_on, min(len(goes_on), draw.choice([3, 15, 30]))))
    for path, cuts in ((whole, []), (cut, ends)):
        for first, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
            piece = log[first:end]
            path.batch([(name, [(0, at(*each)) for each in piece if each[1] == name]) for name in BOTH])
            if path is cut and draw.random() < 0.4:
                path.restore(draw.randrange(len(path.shards)))
    fired = {alert["rule_id"] for alert in whole.alerts}
    assert len(fired) >= (len(RULES) // 2 if len(log) > 60 else 2), "little is tested"
    assert comparable(cut) == comparable(whole)
