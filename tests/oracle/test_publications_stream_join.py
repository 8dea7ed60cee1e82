"""Rules of several streams and of several keys that are published while records come begin with their past.

Their output is what the naive twin finds in the records of all streams by the log of rules.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.rules.base import Defaults
from drawing import one_of_these

from .fastpath import alert_values, stream_spec, twin_outcome
from .living import Feed, Life
from .naive import naive_detect
from .strategies import LISTS, START_MS, STREAM, Body, Record
from .test_detect_equals_naive import DEEP, many
from .test_publications import SPREAD, Op, live
from .test_stream_join import OTHER, draw_joined, join_sets, other_spec

TIMES = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)


@st.composite
def join_lives(draw: st.DrawFn, rules: list[Body], made: list[Record]) -> list[Op]:
    """Each rule is published before some batch; batches end where ingest time moves on."""
    ends = [n for n in range(1, len(made)) if made[n]["_ingest_ms"] > made[n - 1]["_ingest_ms"]]
    cuts = sorted(draw(st.sets(st.sampled_from(ends), max_size=6))) if ends else []
    ops: list[list[Op]] = []
    for start, end in zip([0, *cuts], [*cuts, len(made)], strict=True):
        happens = draw(one_of_these("batch", "batch", "killed", "uncommitted"))
        after = draw(st.sampled_from([[], [], [("restart", 0)], [("lose", 0)]]))
        ops.append([(happens, (end - start, draw(st.integers(1, 2)), None)), *after])
    for rule in (rule for rule in rules if rule["rule_id"][0] in "ms"):  # others: see test_publications
        ops[draw(st.integers(0, len(ops) - 1))].insert(0, ("publish", rule))
    return [op for each in ops for op in each]


@settings(parent=many, max_examples=400 if DEEP else 12)
@given(st.data(), st.booleans().flatmap(lambda several: join_sets(several=several)), st.booleans(), st.integers(1, 2))
def test_they_begin_with_their_past(data: st.DataObject, rules: list[Body], ingest_column: bool, shards: int) -> None:
    made, _ = data.draw(draw_joined(ingest_column=ingest_column))
    if not made:
        return
    ops = data.draw(join_lives(rules, made))
    spec, others = stream_spec(ingest_column=ingest_column), {OTHER: other_spec(ingest_column=ingest_column)}
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), spec, TIMES, shards, data.draw(one_of_these(0, 5000)), Feed(), others)
        live(life, ops, made)
    expected = naive_detect(life.feed.logged, made, defaults=SPREAD, lists=LISTS)
    assert sorted(map(alert_values, life.alerts)) == twin_outcome(expected, made)[0]
    assert not life.feed.noted


def _record(number: int, at_s: float, stream: str = "", **fields: Any) -> Record:
    at_ms = START_MS + round(1000 * at_s)
    of = {"_stream": stream} if stream else {}
    return {"_id": f"t{number}", "_event_ms": at_ms, "_ingest_ms": at_ms, **fields, **of}


MARKET: Body = {
    "rule_id": "market",
    "version": 1,
    "rule_type": "formula",
    "source_topic": STREAM,
    "figures": {
        "rate": {
            "last": "amount",
            "source_topic": OTHER,
            "group_by": {"kind": "kind", "account": "owner"},
            "window": "1h",
        }
    },
    "when": "rate > 0",
    "value": "rate",
    "emit": "every",
}


def test_rates_of_before_are_known(tmp_path: Path) -> None:
    """One of two hours ago is not; the names of the key keep their order on the way to those who judge."""
    made = [
        _record(0, 0, OTHER, owner="a1", kind="CSH", amount=7),
        _record(1, 7000, OTHER, owner="a2", kind="CSH", amount=8),
    ]
    made += [_record(n, 7000 + n, account=f"a{1 + n % 2}", kind="CSH") for n in (2, 3)]
    made += [_record(n, 7200 + n, account=f"a{1 + n % 2}", kind="CSH") for n in (4, 5)]
    ops: list[Op] = [("batch", (1, 1, None)), ("batch", (3, 2, None)), ("publish", MARKET), ("restart", 0)]
    life = Life(tmp_path, stream_spec(ingest_column=True), TIMES, 2, 0, Feed(), {OTHER: other_spec(ingest_column=True)})
    live(life, [*ops, ("batch", (2, 1, None))], made)
    assert [(a["record_id"], a["value"], list(a["key"].items())) for a in life.alerts] == [
        ("t5", 8, [("kind", "CSH"), ("account", "a2")])
    ]


def test_both_keys_of_a_rule_have_their_past(tmp_path: Path) -> None:
    """The third of the account and the fourth of the device, by records of before the rule came."""
    figures = {name: {"count": True, "group_by": name, "window": "1h"} for name in ("account", "device")}
    figures = {f"of_{name}": each for name, each in figures.items()}
    rule = {
        **MARKET,
        "rule_id": "two",
        "figures": figures,
        "when": "of_account >= 3 and of_device >= 4",
        "value": "of_device",
    }
    made = [_record(n, n, account=f"a{n % 2}", device=1) for n in range(6)]
    life = Life(tmp_path, stream_spec(ingest_column=True), TIMES, 2, 0, Feed())
    live(life, [("batch", (3, 2, None)), ("publish", rule), ("restart", 0), ("batch", (3, 1, None))], made)
    assert [(a["record_id"], a["value"], a["evidence"]["count"]) for a in life.alerts] == [("t4", 5, 3), ("t5", 6, 3)]
