"""``crossline alerts show``: the records of an alert, read again. Expected is what the test wrote into files."""

from __future__ import annotations

import csv
import gc
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import yaml
from typer.testing import CliRunner

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import outcomes
from crossline.cli.alerts import command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rules.base import Rule
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .alertkit import alert

START_MS = 1_700_000_000_000
FIELDS = {"id": "string", "at": "integer", "card": "string", "amount": "integer?", "shop": {"country": "string?"}}
BURST = {
    "rule_id": "burst",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "card",
    "aggregation_type": "sum",
    "aggregation_field": "amount",
    "aggregation_threshold": 100,
    "window": "1m",
    "conditions": [{"field": "shop.country", "operator": "!=", "value": "NO"}],
    "description": "card {card} spent {value}",
}
LARGE = {
    "rule_id": "large",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": "logins",
    "conditions": [{"field": "amount", "operator": ">", "value": 90}],
}


def record(name: str, at_s: int, card: str = "c1", amount: int = 30, country: str = "SE") -> dict[str, Any]:
    return {"id": name, "at": START_MS + at_s * 1_000, "card": card, "amount": amount, "shop": {"country": country}}


# Three of c1 within a minute spend 90, the fourth takes them over 100.
RECORDS = [
    record("p1", 0),
    record("p2", 1, "c2", 60),
    record("p3", 10),
    record("p4", 15, "c1", 500, "NO"),
    record("p5", 20),
    record("p6", 30),
    record("p7", 31, "c2", 1),
]


class Project:
    """A pipeline whose records were judged without Spark, and whose store has the alerts."""

    def __init__(self, folder: Path, form: str = "json") -> None:
        self.folder = folder
        self.form = form
        self.pipeline = folder / "pipeline.yaml"
        stream = {"format": form, "id": "id", "event_time": {"field": "at"}, "fields": FIELDS}
        document = {
            "schema_version": 1,
            "name": "payments",
            "streams": {"payments": stream, "logins": {**stream, "format": "json"}},
            "sources": {
                "payments": {"kind": "files", "path": "in/payments*"},
                "logins": {"kind": "files", "path": "in/logins*"},
            },
            "rules": {"kind": "directory", "path": "rules"},
            "sinks": [{"kind": "sqlite", "path": "out/crossline.db"}],
            "engine": {"checkpoint": "out/checkpoint"},
        }
        self.pipeline.write_text(yaml.safe_dump(document))
        for name in ("in", "rules"):
            (folder / name).mkdir()
        self.write("logins.jsonl", [record("p1", 5, "c1", 91), record("p3", 6, "c1", 3)], "json")

    def write(self, name: str, records: Sequence[Mapping[str, Any]], form: str = "") -> Path:
        path = self.folder / "in" / name
        form = form or self.form
        if form == "json":
            path.write_text("".join(json.dumps(each) + "\n" for each in records))
        elif form == "parquet":
            pq.write_table(pa.Table.from_pylist(list(records)), path, row_group_size=2)
        else:
            with path.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["id", "at", "card", "amount", "shop.country"])
                writer.writerows([*list(each.values())[:4], each["shop"]["country"]] for each in records)
        return path

    def judge(self, streams: Sequence[str] = ("payments", "logins"), more: Sequence[Mapping[str, Any]] = ()) -> None:
        rules: list[Rule] = []
        for body in (BURST, LARGE, *more):
            (self.folder / "rules" / f"{body['rule_id']}.yaml").write_text(yaml.safe_dump(body))
            rules.append(load_rules_text(yaml.safe_dump(body), "rules.yaml")[0].rule)
        config = read_pipeline_in_place(self.pipeline)
        inputs = {name: [config.sources[name].path] for name in streams}  # type: ignore[union-attr]
        judged = BacktestSpec(RuleSet.from_rules(rules), RecordedInput(config.streams, inputs))
        sink = SqliteSink(self.folder / "out" / "crossline.db", "payments")
        sink.open()
        lines = [
            {"event": "published", "rule_id": rule.rule_id, "version": 1, "body": rule.to_json()} for rule in rules
        ]
        for number, outcome in enumerate(outcomes(judged, self.folder / "out" / "checkpoint")):
            rest = {"dead": outcome.dead, "late": outcome.late, "rule_events": lines}
            sink.deliver(Delivery("payments", number, outcome.alerts, positions=outcome.positions, **rest))
        sink.close()

    def ids(self, rule: str) -> list[str]:
        """Ids of the alerts of a rule, in their order."""
        lines = alerts_command("list", "--pipeline", self.pipeline, "--rule", rule, "--json").stdout.splitlines()
        return [json.loads(line)["alert_id"] for line in reversed(lines)]

    def show(self, *arguments: object) -> Any:
        (alert_id,) = self.ids("burst")
        return json.loads(alerts_command("show", alert_id, "--pipeline", self.pipeline, "--json", *arguments).stdout)


def alerts_command(*arguments: object) -> Any:
    app = typer.Typer()
    command.register(app)
    app.callback()(lambda: None)
    result = CliRunner().invoke(app, ["alerts", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def found(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by record id; None where it was not found."""
    return {each["record_id"]: each["fields"] if each["found"] else None for each in shown["records"]}


EVIDENCE = ("p1", "p3", "p5", "p6")


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_the_records_of_a_window_from_two_files(tmp_path: Path, form: str) -> None:
    project = Project(tmp_path, form)
    project.write("payments-1", RECORDS[:4])
    second = project.write("payments-2", RECORDS[4:])
    project.judge()
    shown = project.show()
    expected = {each["id"]: each for each in RECORDS if each["id"] in EVIDENCE}
    if form == "csv":
        flat = {k: {**v, "shop.country": v["shop"]["country"]} for k, v in expected.items()}
        expected = {k: {n: str(x) for n, x in v.items() if n != "shop"} for k, v in flat.items()}
    assert found(shown) == expected
    assert "records_missing" not in shown
    last = shown["records"][-1]
    assert last["event_time"] == "2023-11-14T22:13:50.000Z"
    assert last["partition"] == str(second)
    if form == "parquet":
        assert last["offset"] == 1
    else:
        assert b"p6" in second.read_bytes()[last["offset"] :].split(b"\n")[0]


def test_records_of_another_stream_are_found_in_theirs(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.write("logins.jsonl", [record("l1", 5, "c1", 91)])
    both = {"rule_id": "both", "version": 1, "rule_type": "composite", "all_of": ["burst", "large"]}
    project.judge(more=[{**both, "join_key": "card", "window": "1h"}])
    (alert_id,) = project.ids("both")
    shown = json.loads(alerts_command("show", alert_id, "--pipeline", project.pipeline, "--json").stdout)
    assert found(shown) == {"l1": record("l1", 5, "c1", 91), "p6": RECORDS[5]}
    assert {each["record_id"]: each.get("stream") for each in shown["records"]} == {"l1": "logins", "p6": None}
    text = alerts_command("show", alert_id, "--pipeline", project.pipeline).stdout
    assert ["1", "l1", "logins", "2023-11-14T22:13:25.000Z", "c1"] in [line.split()[:5] for line in text.splitlines()]


AFTER_LOGIN = {
    "rule_id": "after_login",
    "version": 1,
    "rule_type": "sequence",
    "source_topic": "payments",
    "group_by": "shop.country",
    "steps": [
        {"name": "login", "source_topic": "logins", "group_by": "card"},
        {"name": "paid", "conditions": [{"field": "amount", "operator": "==", "value": 500}]},
    ],
    "within": "1h",
}
AT_LOGIN = {
    "rule_id": "at_login",
    "version": 1,
    "rule_type": "correlation",
    "source_topic": "payments",
    "context_topic": "logins",
    "correlation_key": {"primary": "shop.country", "context": "card"},
    "window": "1h",
    "context_resolution": "last",
    "context_value_field": "amount",
    "metric": "direct",
    "condition": {"operator": "==", "value": 7},
    "conditions": [{"field": "amount", "operator": "==", "value": 500}],
}


def test_records_of_steps_and_contexts_are_known_by_the_key_that_they_have_there(tmp_path: Path) -> None:
    """A login of the same id and another key is another record."""
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.write("logins.jsonl", [record("l1", 11, "NO", 7), record("l2", 12, "DK", 3), record("l1", 13, "DK", 7)])
    project.judge(more=[AFTER_LOGIN, AT_LOGIN])
    for rule in ("after_login", "at_login"):
        (alert_id,) = project.ids(rule)
        shown = json.loads(alerts_command("show", alert_id, "--pipeline", project.pipeline, "--json").stdout)
        assert found(shown) == {"l1": record("l1", 11, "NO", 7), "p4": RECORDS[3]}


def test_a_stream_that_has_no_source_here_is_reported(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.write("logins.jsonl", [record("l1", 11, "NO", 7)])
    project.judge(more=[AFTER_LOGIN])
    document = yaml.safe_load(project.pipeline.read_text())
    del document["sources"]["logins"]
    project.pipeline.write_text(yaml.safe_dump(document))
    (alert_id,) = project.ids("after_login")
    shown = json.loads(alerts_command("show", alert_id, "--pipeline", project.pipeline, "--json").stdout)
    assert found(shown) == {"l1": None, "p4": RECORDS[3]}
    assert "stream logins was not looked through: no files are named for stream logins" in shown["records_missing"][-1]


def test_the_table_has_the_fields_that_key_rule_and_sentence_name(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.judge()
    (alert_id,) = project.ids("burst")
    text = alerts_command("show", alert_id, "--pipeline", project.pipeline).stdout
    lines = [line.split() for line in text.splitlines()]
    at = lines.index(["record", "time", "card", "amount", "shop.country"])
    assert lines[at + 1 :] == [
        ["1", "p1", "2023-11-14T22:13:20.000Z", "c1", "30", "SE"],
        ["2", "p3", "2023-11-14T22:13:30.000Z", "c1", "30", "SE"],
        ["3", "p5", "2023-11-14T22:13:40.000Z", "c1", "30", "SE"],
        ["4", "p6", "2023-11-14T22:13:50.000Z", "c1", "30", "SE"],
    ]
    ids_alone = alerts_command("show", alert_id, "--pipeline", project.pipeline, "--no-records").stdout
    assert [line.split() for line in ids_alone.splitlines()][-4:] == [[str(n), x] for n, x in enumerate(EVIDENCE, 1)]


def test_a_record_is_looked_for_in_the_stream_of_its_alert(tmp_path: Path) -> None:
    project = Project(tmp_path)  # ids p1 and p3 are in both streams, and the card is the same
    project.write("payments", RECORDS)
    project.judge()
    assert found(project.show())["p1"]["amount"] == 30
    (large,) = project.ids("large")
    shown = json.loads(alerts_command("show", large, "--pipeline", project.pipeline, "--json").stdout)
    assert found(shown) == {"p1": record("p1", 5, "c1", 91)}


def test_files_that_were_renamed_deleted_or_written_over(tmp_path: Path) -> None:
    project = Project(tmp_path)
    first, second = project.write("payments-1", RECORDS[:4]), project.write("payments-2", RECORDS[4:])
    project.judge()
    second.rename(second.with_name("old-2"))
    assert all(found(project.show()).values())
    first.rename(tmp_path / "elsewhere")
    shown = project.show()
    assert [name for name, fields in found(shown).items() if fields is None] == ["p1", "p3"]
    assert shown["records_missing"][0].startswith(
        "2 of 4 records not found: the source was read back as far as it goes"
    )
    assert f"{first}: cannot read bytes 0-" in shown["records_missing"][1]
    first.write_bytes((tmp_path / "elsewhere").read_bytes().replace(b"p1", b"q1"))
    shown = project.show()
    assert [name for name, fields in found(shown).items() if fields is None] == ["p1", "p3"]
    assert "are not those that were read before" in shown["records_missing"][1]
    (alert_id,) = project.ids("burst")
    text = alerts_command("show", alert_id, "--pipeline", project.pipeline).stdout
    assert [line.split()[1:] for line in text.splitlines() if "not found" in line][:2] == [
        ["p1", "not", "found"],
        ["p3", "not", "found"],
    ]
    assert "are not those that were read before" in text


def test_other_records_with_the_same_id_are_not_taken_for_them(tmp_path: Path) -> None:
    project = Project(tmp_path)
    copy, other_key = record("p1", 2, "c1", 7), record("p3", 12, "c9", 8)
    refused = {**record("p5", 21), "amount": "many"}
    project.write("payments", [*RECORDS[:5], copy, other_key, refused, *RECORDS[5:], record("p6", 40, "c1", 1)])
    project.judge()
    assert found(project.show()) == {each["id"]: each for each in RECORDS if each["id"] in EVIDENCE}


def test_a_store_that_does_not_say_where_the_alert_fired(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", [*RECORDS, *(record(f"x{n}", 40 + n, "c3", 0) for n in range(50))])
    project.judge()
    with closing(sqlite3.connect(tmp_path / "out" / "crossline.db")) as connection:
        connection.execute("UPDATE alerts SET at_partition = NULL, at_offset = NULL")
        connection.commit()
    assert all(found(project.show()).values())


def test_a_checkpoint_that_is_gone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.judge()
    (tmp_path / "out" / "checkpoint").rename(tmp_path / "away")
    assert all(found(project.show()).values())


def test_reading_ends_when_time_is_up(tmp_path: Path) -> None:
    project = Project(tmp_path)
    before = [record(f"x{n}", 1, "c3", 0) for n in range(2_000)]
    project.write("payments", [*RECORDS[:1], *before, *RECORDS[1:]])
    project.judge()
    shown = project.show("--read-for", "0s")
    assert found(shown)["p1"] is None
    assert "records were read back in 0 s; --read-for takes longer" in shown["records_missing"][0]
    assert all(found(project.show()).values())


def test_the_alerts_of_a_backtest(tmp_path: Path) -> None:
    project = Project(tmp_path)
    payments = project.write("payments", RECORDS)
    project.judge(["payments"])
    exported = tmp_path / "alerts.jsonl"
    alerts_command("export", "--pipeline", project.pipeline, "--output", exported)
    (alert_id,) = project.ids("burst")
    stream = tmp_path / "stream.yaml"
    document = yaml.safe_load(project.pipeline.read_text())
    stream.write_text(yaml.safe_dump({"schema_version": 1, "streams": {"payments": document["streams"]["payments"]}}))
    files = ("--stream", stream, "--input", payments, "--rules", tmp_path / "rules")
    for where in (("--pipeline", project.pipeline), files):
        result = alerts_command("show", alert_id, "--alerts", exported, "--json", *where)
        shown = json.loads(result.stdout)
        assert found(shown) == {each["id"]: each for each in RECORDS if each["id"] in EVIDENCE}
        table = alerts_command("show", alert_id, "--alerts", exported, *where).stdout.splitlines()
        assert ["record", "time", "card", "amount", "shop.country"] in [line.split() for line in table]


def test_what_is_needed_is_stated(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.judge()
    (alert_id,) = project.ids("burst")
    db = tmp_path / "out" / "crossline.db"
    result = alerts_command("show", alert_id, "--db", db, "--json")
    assert "records" not in json.loads(result.stdout)
    assert "add --pipeline FILE, or --stream FILE and --input" in result.stderr
    assert all(
        found(json.loads(alerts_command("show", alert_id, "--db", db, "--pipeline", project.pipeline, "--json").stdout))
    )
    project.pipeline.write_text(project.pipeline.read_text().replace("name: payments", "name: others"))
    result = alerts_command("show", alert_id, "--db", db, "--pipeline", project.pipeline)
    assert "the alert is of pipeline payments" in result.stderr
    assert result.stdout.splitlines()[-1].split() == ["4", "p6"], "the records are shown all the same"


def test_a_record_whose_window_is_before_it_is_shown_too(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    store = SqliteSink(tmp_path / "out" / "crossline.db", "payments")
    store.open()
    one = alert(
        "aa", key={"card": "c1"}, record_id="p6", evidence={"count": 2, "record_ids": ["p3", "p5"]}, rule_id="burst"
    )
    store.deliver(Delivery("payments", 0, [one]))
    store.close()
    assert list(found(project.show())) == ["p3", "p5", "p6"]


def test_no_file_is_left_open(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("payments", RECORDS)
    project.judge()
    project.show()
    gc.collect()  # a file that nobody closed warns, and warnings are errors
