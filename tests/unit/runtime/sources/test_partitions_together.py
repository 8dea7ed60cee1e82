"""Messages of several partitions that are decoded and routed together are what they are partition by partition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.deadletter import DeadLetter
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.ingest.route.part_codec import pack, unpack
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources import intake
from crossline.runtime.sources.intake import KafkaIntake
from crossline.runtime.sources.messages import message_rows
from crossline.runtime.stages.stages import parts_of
from crossline.runtime.work.task import Task
from drawing import one_of_these

STREAM, SHARDS, NOW_MS = "s", 2, 1_700_000_000_000
STREAMS = load_streams(
    json.dumps(
        {
            "schema_version": 1,
            "streams": {
                STREAM: {
                    "id": "id",
                    "event_time": {"field": "at", "unit": "ms"},
                    "fields": {
                        "id": "string",
                        "at": "integer",
                        "who": "string?",
                        "n": "integer",
                    },
                }
            },
        }
    ),
    "stream.yaml",
)
_COMMON = {"version": 1, "rule_type": "velocity", "source_topic": STREAM, "window": "60s", "operator": ">="}
RULES: list[dict[str, Any]] = [
    {**_COMMON, "rule_id": "count", "group_by": "who", "aggregation_type": "count", "aggregation_threshold": 2},
    {
        **_COMMON,
        "rule_id": "kinds",
        "group_by": "n",
        "aggregation_threshold": 2,
        "aggregation_type": "distinct_count",
        "aggregation_field": "who",
        "conditions": [{"field": "n", "operator": ">", "value": 1}],
    },
    {
        "rule_id": "single",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": STREAM,
        "conditions": [{"field": "n", "operator": ">=", "value": 3}],
    },
]


def snapshot() -> PlanSnapshot:
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(RULES), "rules.yaml", STREAMS, ()))
    return PlanSnapshot(rules, STREAMS, Defaults(), SHARDS, Bounds())


@dataclass(frozen=True)
class Sent:
    """A message of the client."""

    body: bytes | None
    number: int
    at_ms: int
    by_broker: bool

    def value(self) -> bytes | None:
        return self.body

    def offset(self) -> int:
        return self.number

    def timestamp(self) -> tuple[int, int]:
        return (2 if self.by_broker else 1), self.at_ms


@st.composite
def values(draw: st.DrawFn) -> bytes | None:
    fields = {
        "id": f"i{draw(st.integers(0, 9))}",
        "at": NOW_MS + draw(st.integers(-5_000, 5_000)),
        "who": draw(one_of_these("a", "b", "é", None)),
        "n": draw(st.integers(0, 4)),
    }
    raw = json.dumps(fields).encode()
    return draw(st.sampled_from([raw, raw, raw, raw, raw, b"{", None]))


@st.composite
def partitions(draw: st.DrawFn) -> list[tuple[tuple[str, int], list[Sent]]]:
    places = draw(
        st.lists(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2)), min_size=1, max_size=4, unique=True)
    )
    found = []
    for place in places:
        number, mine = draw(st.integers(0, 50)), []
        for _ in range(draw(st.integers(1, 6))):
            at_ms = draw(st.sampled_from([-1, NOW_MS + draw(st.integers(-3_000, 3_000))]))
            mine.append(Sent(draw(values()), number, at_ms, draw(st.booleans())))
            number += draw(st.integers(1, 3))  # others were deleted, or were marks of transactions
        found.append((place, mine))
    return found


def taken_in(given: Sequence[tuple[tuple[str, int], list[Sent]]]) -> tuple[dict[Any, Any], list[DeadLetter]]:
    """What each shard is given, by store and chunk, and the dead letters."""
    known, found, dead = snapshot(), dict[Any, Any](), list[DeadLetter]()
    task = Task(began_ms=NOW_MS)
    for decoded, chunk in KafkaIntake(STREAM).decode(known, message_rows(given), task, 0):  # type: ignore[arg-type] # its own messages
        dead += decoded.dead
        parts = [part for _, part in parts_of(known, decoded.records, chunk)]
        for shard in range(SHARDS):
            for meta, arrays in unpack(pack(part for part in parts if part.shard == shard), "parts"):
                place = (shard, meta["state_store"], meta["log"], meta["sequence"])
                assert place not in found
                # Where no log of a chunk goes back, what each had reached is left out.
                found[place] = meta, dict(_readable({"reached_ms": arrays["clock_ms"], **arrays}))
    return found, dead


def _readable(arrays: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Rows with their keys and texts in the place of numbers."""
    texts = {name.removesuffix("_offsets") for name in arrays if name.endswith("_offsets")}
    cut = {name: _cut(arrays[f"{name}_bytes"], arrays[f"{name}_offsets"]) for name in texts}
    for name, array in arrays.items():
        if name == "key_hash" or name.endswith(("_bytes", "_offsets")):
            continue
        listed = cut.get({"key_index": "key"}.get(name, name.replace("value", "text")))
        yield name, array.tolist() if listed is None else [listed[number] for number in array.tolist()]
        if name == "key_index":
            yield "hash", arrays["key_hash"][array].tolist()
    yield from ((name, cut[name]) for name in ("id", "figure") if name in cut)


def _cut(data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> list[bytes]:
    raw, ends = data.tobytes(), offsets.tolist()
    assert ends[0] == 0
    return [raw[start:end] for start, end in pairwise(ends)]


@settings(deadline=None)
@given(partitions())
def test_together_they_are_what_they_are_one_by_one(given_rows: list[tuple[tuple[str, int], list[Sent]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        together = taken_in(given_rows)
        patch.setattr(intake, "TOGETHER_MAX", 0)
        assert together == taken_in(given_rows)


def test_partitions_in_any_order() -> None:
    """As a task of Spark's may have them: its rows are put side by side as they come."""
    body = b'{"id":"i%d","at":1700000000000,"who":"a","n":3}'
    first, second = [Sent(body % 1, 5, NOW_MS, by_broker=True)], [Sent(body % 2, 7, NOW_MS, by_broker=True)]
    found, _ = taken_in(
        [(("t", 1), second), (("t", 0), first), (("t", 1), [Sent(body % 3, 8, NOW_MS, by_broker=True)])]
    )
    logs = {(log, sequence): meta["records"] for (_, _, log, sequence), (meta, _) in found.items()}
    assert logs == {("t-0", 5): 1, ("t-1", 7): 2}
