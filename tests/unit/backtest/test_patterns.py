"""examples/patterns: what its rules find is what its expected.yaml says, which was worked out by hand."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.io.sinks.base import Delivery, build_sink
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.settings.config import rule_defaults
from crossline.settings.sources import FilesSettings

EXAMPLE = Path(__file__).parents[3] / "examples" / "patterns"

Alert = dict[str, Any]


def example() -> BacktestSpec:
    """The rules of the pipeline over its files."""
    config = read_pipeline_in_place(EXAMPLE / "pipeline.yaml")
    streams = load_streams((EXAMPLE / "stream.yaml").read_text(), "stream.yaml")
    files = {name: [each.path] for name, each in config.sources.items() if isinstance(each, FilesSettings)}
    assert files.keys() == streams.keys()
    rules = RuleSet.from_rules(read_rules(EXAMPLE / "rules", Known(streams)))
    return BacktestSpec(rules, RecordedInput(streams, files), defaults=rule_defaults(config), bounds=Bounds(60_000))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Alert], list[Alert]]:
    """All alerts, and those that a sink was given."""
    folder = tmp_path_factory.mktemp("patterns")
    sink = build_sink({"kind": "jsonl", "path": str(folder / "sink.jsonl")}, "patterns")
    sink.open()

    def on_batch(delivery: Delivery, _: Any) -> None:
        assert not delivery.dead
        sink.deliver(delivery)

    replay = backtest(example(), folder / "alerts.jsonl", on_batch=on_batch, processes=2)
    sink.close()
    assert not replay.totals.late
    every, delivered = (
        [orjson.loads(line) for line in (folder / name).read_bytes().splitlines()]
        for name in ("alerts.jsonl", "sink.jsonl")
    )
    return every, delivered


def test_every_scenario_finds_what_was_worked_out(found: tuple[list[Alert], list[Alert]]) -> None:
    expected = yaml.safe_load((EXAMPLE / "expected.yaml").read_text())
    by_rule: dict[str, list[Alert]] = defaultdict(list)
    for alert in found[1]:
        by_rule[alert["rule_id"]].append(alert)
    assert {rule: [each["record_id"] for each in alerts] for rule, alerts in by_rule.items()} == {
        rule: [each["record"] for each in alerts] for rule, alerts in expected.items() if alerts
    }
    for rule, alerts in expected.items():
        values = [each["value"] for each in by_rule[rule]]
        assert values == [pytest.approx(each["value"], rel=1e-6) for each in alerts]


def test_each_rule_is_a_scenario() -> None:
    assert yaml.safe_load((EXAMPLE / "expected.yaml").read_text()).keys() == {
        version.rule.rule_id for version in example().rules.versions
    }


def test_nothing_of_the_velocity_alone_reaches_a_sink(found: tuple[list[Alert], list[Alert]]) -> None:
    """The posts of a hot hashtag are hits, which the correlation rests on, and no more than that."""
    every, delivered = found
    hot = [alert["record_id"] for alert in every if alert["rule_id"] == "hashtag_velocity"]
    assert hot == ["post-6", "post-7", "post-8", "post-9"]
    assert "hashtag_velocity" not in {alert["rule_id"] for alert in delivered}
    (alert,) = (each for each in delivered if each["rule_id"] == "low_reputation_user")
    assert (alert["key"], alert["stream"]) == ({"user_id": "bot-1"}, "posts")
    assert alert["evidence"]["context"]["record_ids"] == ["context-2"]


ENRICHED = ("rapid_clicks", "event_flood", "purchase_value", "tx_vs_fx_rate", "sensor_baseline", "low_reputation_user")


def test_the_articles_rules_emit_the_event(found: tuple[list[Alert], list[Alert]]) -> None:
    ids = {name: spec.id for name, spec in load_streams((EXAMPLE / "stream.yaml").read_text(), "stream.yaml").items()}
    read = (orjson.loads(line) for path in (EXAMPLE / "in").glob("*.jsonl") for line in path.read_bytes().splitlines())
    records = {next(each[name] for name in ids.values() if name in each): each for each in read}
    carried = [alert for alert in found[1] if "record" in alert]
    assert {alert["rule_id"] for alert in carried} == {*ENRICHED}
    for alert in carried:
        given = {name: value for name, value in alert["record"].items() if value is not None}
        assert given == records[alert["record_id"]]


def test_the_flood_is_what_its_program_writes() -> None:
    made = subprocess.run([sys.executable, EXAMPLE / "flood.py"], capture_output=True, check=True)
    assert made.stdout == (EXAMPLE / "in" / "events.raw-flood.jsonl").read_bytes()


def test_rules_that_look_at_a_stream_without_input_are_judged_without_it(tmp_path: Path) -> None:
    """They are not left out in silence: what they ask of the other stream is missing."""
    streams = load_streams((EXAMPLE / "stream.yaml").read_text(), "stream.yaml")
    body = {
        "rule_id": "no_rate",
        "version": 1,
        "rule_type": "formula",
        "source_topic": "transactions",
        "figures": {
            "rates": {"count": True, "source_topic": "fx_rates", "group_by": "currency_pair", "window": "5m"},
        },
        "when": "rates == 0",
        "emit": "every",
    }
    (loaded,) = load_rules_text(orjson.dumps([body]).decode(), "r.yaml", streams)
    files = {"transactions": [str(EXAMPLE / "in" / "transactions.jsonl")]}
    judged = BacktestSpec(RuleSet.from_rules([loaded.rule]), RecordedInput(streams, files))
    replay = backtest(judged, tmp_path / "alerts.jsonl", processes=1)
    assert replay.totals.alerts == {"no_rate": replay.totals.records}
