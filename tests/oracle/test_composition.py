"""Rules that read hits, at any depth: the same alerts as the naive twin, however the stream is cut and restarted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crossline.core.judge.shard import Bounds

from .composed import composed_detect
from .fastpath import FastPath, plans_of, stream_spec
from .naive import running_max_ingest
from .strategies import LISTS, Body, Record, composed_sets, records
from .test_detect_equals_naive import INGEST_BACK_MS, at_instants, check, many, run, shapes, with_ingest


@many
@given(st.data(), composed_sets(), records(), st.booleans())
def test_one_log(data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=ingest_column), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 2)))
    check(path, rules, composed_detect(rules, made, lists=LISTS), made)


@many
@given(st.data(), composed_sets(), records())
def test_several_logs_whose_ingest_times_go_back(data: st.DataObject, rules: list[Body], made: list[Record]) -> None:
    """A hit stands among those of other logs where its record does, whichever shard it comes from."""
    back = data.draw(st.lists(st.sampled_from([0, 0, 500, INGEST_BACK_MS]), min_size=len(made), max_size=len(made)))
    logs = data.draw(st.lists(st.sampled_from("abc"), min_size=len(made), max_size=len(made)))
    made = with_ingest(made, [record["_ingest_ms"] - ms for record, ms in zip(made, back, strict=True)])
    reached = [
        max(made[place]["_ingest_ms"] for place in range(here + 1) if logs[place] == logs[here])
        for here in range(len(made))
    ]
    order = sorted(range(len(made)), key=lambda place: (reached[place], logs[place], place))
    made, logs = [made[place] for place in order], [logs[place] for place in order]
    shape = at_instants(data.draw(shapes(len(made))), [{"_ingest_ms": reached[place]} for place in order])
    bounds = Bounds(partition_lag_ms=INGEST_BACK_MS)
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards, bounds)
    run(path, shape, made, logs)
    check(path, rules, composed_detect(rules, made, lists=LISTS), made)
