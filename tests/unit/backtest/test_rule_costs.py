"""What is measured on a sample, on one that can be counted by hand."""

from __future__ import annotations

from pathlib import Path

from crossline.backtest.workbench.rule_costs import Cost, costs, spans, stores
from crossline.backtest.workbench.sample import alerts_over, batches

from .samples import START_MS, count_rule, judged, payment, write

# Two cards declined three times, one paid twice; eight seconds from the first to the last.
PAYMENTS = [
    payment(1, 0, "a", status="declined"),
    payment(2, 1, "b", status="declined"),
    payment(3, 2, "a"),
    payment(4, 4, "c"),
    payment(5, 8, "a", status="declined"),
]
DECLINES = count_rule(rule_id="declines", conditions=[{"field": "status", "operator": "==", "value": "declined"}])


def test_what_enters_and_under_how_many_keys(tmp_path: Path) -> None:
    given = judged(write(tmp_path / "in.jsonl", PAYMENTS), DECLINES, count_rule())
    sample = list(batches(given.history, tmp_path))
    span = spans(sample)["payments"]
    assert (span.records, span.first_ms, span.seconds) == (5, START_MS, 8.0)
    found = stores(given, sample)
    (declines,), (many,) = found["declines"], found["many"]
    assert (declines.records, declines.keys, declines.per_s) == (3, 2, 3 / 8)
    assert (many.records, many.keys, many.per_s) == (5, 3, 5 / 8)
    # Both lie in one store: a minute of windows, two of lateness, and one that logs may lag, at 5 records in 8 s.
    assert declines.kept.shared_with == ("many",)
    assert declines.held == many.held == 5 / 8 * (60 + 120 + 60)
    assert declines.bytes_a_record is not None
    assert declines.bytes_a_record > 35  # what a record takes in a large store, without its key


def test_a_sample_is_judged_as_a_stream_is(tmp_path: Path) -> None:
    given = judged(write(tmp_path / "in.jsonl", PAYMENTS), DECLINES, count_rule())
    alerts = alerts_over(given, batches(given.history, tmp_path))
    assert [(each["rule_id"], each["record_id"], each["value"]) for each in alerts] == [
        ("many", "p3", 2),
        ("declines", "p5", 2),
    ]


def test_costs_are_reported_with_their_noise(tmp_path: Path) -> None:
    given = judged(write(tmp_path / "in.jsonl", PAYMENTS), DECLINES, count_rule())
    whole, bare, (cost,) = costs(given, list(batches(given.history, tmp_path)), ["many"])
    assert whole > 0
    assert bare > 0
    assert cost.rule_id == "many"
    assert not Cost("r", 100.0, 60.0).significant
    assert Cost("r", 100.0, 40.0).significant


def test_rules_that_read_hits_are_judged_after_those(tmp_path: Path) -> None:
    again = count_rule(rule_id="again", source_topic="rule:many", aggregation_threshold=1, window="1h")
    given = judged(write(tmp_path / "in.jsonl", PAYMENTS), count_rule(), again)
    sample = list(batches(given.history, tmp_path))
    alerts = alerts_over(given, sample)
    assert [(each["rule_id"], each["record_id"]) for each in alerts] == [("many", "p3"), ("again", "p3")]
    (store,) = stores(given, sample)["again"]
    assert (store.records, store.keys, store.kept.stream, store.kept.base) == (1, 1, "rule:many", "payments")
