"""A Detector that is fed in cuts, saved and loaded between some of them, says what one pass over all records says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import orjson
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline import Detector, Stream
from crossline.backtest import in_process
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import load_policy
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local import saved_state

from .composed_strategies import composed_sets
from .fastpath import stream_spec
from .rule_versions import DEFAULTS, duration_ms
from .strategies import LISTS, STREAM, Body, Record, cuts, records, rule_sets, wire_record
from .test_corrections import BUSY, disordered, reevaluated
from .test_decisions import POLICIES, WEIGHTS, weighted
from .test_detect_equals_naive import DEEP
from .test_runners import judged_of, split

AS_DEFAULTS = Defaults(
    "event_time", duration_ms(DEFAULTS["watermark_delay"]), duration_ms(DEFAULTS["allowed_lateness"])
)
NOW_MS = 4_000_000_000_000
OF_THE_RUN = ("detected_at", "delivered_at", "decided_at")

quickly = settings(
    max_examples=300 if DEEP else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Fed:
    """What comes of records, given in cuts; after the cuts in ``saved`` another detector goes on from a file."""

    def __init__(self, rules: list[Body], policy: Body | None) -> None:
        stream = Stream(STREAM, stream_spec(ingest_column=True))
        read = judged_of(rules, [], ingest_column=True).rules
        reported = None if policy is None else load_policy(yaml.safe_dump(policy), "policy.yaml")
        self.rules: RuleSet = read
        self._make = lambda: Detector(
            read,
            stream,
            policy=reported,
            lists=LISTS,
            defaults=AS_DEFAULTS,
            partition_lag_ms=0,
            clock_ms=lambda: NOW_MS,
        )

    def output(
        self, parts: list[list[Record]], saves: set[int] = frozenset()
    ) -> tuple[list[Any], list[Any], list[Any]]:  # type: ignore[assignment]
        """The alerts, the decisions, and the dead letters."""
        detector, alerts, decisions, dead = self._make(), list[Any](), list[Any](), list[Any]()
        with tempfile.TemporaryDirectory() as folder:
            for number, part in enumerate(parts):
                found = detector.process([wire_record(record) for record in part])
                alerts += found.alerts
                decisions += found.decisions
                dead += [(each.reason, each.offset, each.record_id) for each in found.alerts.dead_letters]
                if number in saves:
                    path = Path(folder) / "state.bin"
                    detector.save(path)
                    detector = self._make().load(path)
        return [_bare(alert) for alert in alerts], [_bare(each) for each in decisions], dead


def _bare(body: Any) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in OF_THE_RUN}


def parts_of(made: list[Record], edges: list[tuple[int, int]]) -> list[list[Record]]:
    return [made[start:end] for start, end in edges]


@st.composite
def fed(draw: st.DrawFn, drawn: st.SearchStrategy[list[Record]]) -> tuple[list[Record], list[list[Record]], set[int]]:
    """Records, cuts of them, and after which cuts the state is saved."""
    made = draw(drawn)
    parts = parts_of(made, draw(cuts(len(made))))
    return made, parts, draw(st.sets(st.integers(0, max(0, len(parts) - 1))))


@quickly
@given(rule_sets() | composed_sets(), fed(records()), st.none() | POLICIES, st.lists(WEIGHTS, min_size=1, max_size=3))
def test_in_cuts_it_says_what_it_says_in_one(
    rules: list[Body],
    given_records: tuple[list[Record], list[list[Record]], set[int]],
    policy: Body | None,
    weights: Any,
) -> None:
    made, parts, saves = given_records
    run = Fed(weighted(rules, weights, 0), policy)
    whole, cut = run.output([made]), run.output(parts, saves)
    for mine, theirs in zip(cut, whole, strict=True):
        assert sorted(mine, key=str) == sorted(theirs, key=str)


@quickly
@given(
    st.lists(st.sampled_from(BUSY), min_size=1, max_size=2),
    fed(disordered(20)),
    st.none() | POLICIES,
    st.lists(WEIGHTS, min_size=1, max_size=3),
)
def test_corrections_and_revisions_outlive_a_save(
    bodies: list[Body],
    given_records: tuple[list[Record], list[list[Record]], set[int]],
    policy: Body | None,
    weights: Any,
) -> None:
    """Between the same cuts, saved or not: which corrections there are depends on the cuts, as in a pipeline."""
    _, parts, saves = given_records
    run = Fed(weighted([reevaluated(body, number) for number, body in enumerate(bodies)], weights, 0), policy)
    assert run.output(parts, saves) == run.output(parts)


@quickly
@given(rule_sets() | composed_sets(), records())
def test_one_pass_says_what_a_backtest_says(rules: list[Body], made: list[Record]) -> None:
    lines = [_line(record) for record in made]
    with tempfile.TemporaryDirectory() as name:
        judged = judged_of(rules, split(lines, Path(name), 1), ingest_column=True)
        found = [each for outcome in in_process.outcomes(judged, Path(name)) for each in outcome.alerts]
    assert judged.bounds == Bounds(0)
    assert Fed(rules, None).output([made])[0] == [_bare(alert) for alert in found]


def _line(record: Record) -> bytes:
    return orjson.dumps(wire_record(record)) + b"\n"


def test_what_no_window_needs_is_not_saved(tmp_path: Path) -> None:
    """One record a minute, a window of ten seconds: the file does not grow with the records."""
    body = {"rule_id": "r", "version": 1, "rule_type": "velocity", "source_topic": STREAM, "group_by": "account"}
    rule = {**body, "window": "10s", "aggregation_type": "count", "aggregation_threshold": 2}
    detector = Fed([rule], None)._make()
    sizes = []
    for number in range(3 * saved_state.TRIM_EVERY):
        at_ms = 1_700_000_000_000 + 60_000 * number
        detector.process([{"id": f"t{number}", "account": "a", "event_time": at_ms, "received_at": at_ms}])
        if number % saved_state.TRIM_EVERY == saved_state.TRIM_EVERY - 1:
            detector.save(tmp_path / "state.bin")
            sizes.append((tmp_path / "state.bin").stat().st_size)
    assert sizes[1] <= sizes[0] * 1.1
    assert sizes[2] <= sizes[0] * 1.1
