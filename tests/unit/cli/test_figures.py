"""``crossline figures``: one small table worked by hand, what it says, and what it refuses."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crossline.cli.main import run_command

STREAM = """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: s}
    ingest_time: {field: came, unit: s}
    fields: {id: string, card: string?, shop: string, cents: integer, rate: number, at: integer, came: integer}
  labels:
    id: id
    event_time: {field: at, unit: s}
    ingest_time: {field: came, unit: s}
    fields: {id: string, number: string, fraud: integer, at: integer, came: integer}
"""
FIGURES = """\
source_topic: payments
allowed_lateness: 10s
figures:
  tries: {count: true, group_by: card, window: 60s}
  before: {avg: rate, group_by: card, window: 60s, include_current: false}
  seen: {last: at, group_by: card, window: 60s, delay: 20s}
  spent: {sum: cents, group_by: shop, window: 1h}
"""
SHARED = (
    "{{kind: figure, figure_id: shops, version: {version}, status: {status}, source_topic: payments, "
    "distinct_count: shop, group_by: card, window: {window}}}\n"
)
# id, card, shop, cents, rate, at, came
ROWS = [
    ("a", "c1", "s1", 5, 1.5, 100, 100),
    ("b", "c2", "s1", 7, 2.0, 110, 110),
    ("c", "c1", "s2", 2**63 - 1, 2.5, 130, 131),
    ("d", None, "s1", 1, 0.0, 140, 140),
    ("b", "c2", "s1", 7, 2.0, 110, 141),  # again, and by now very late: it counts as late
    ("d", None, "s1", 1, 0.0, 140, 142),  # again
    ("e", "c1", "s2", 3, 4.0, 125, 143),  # 18 s late
    ("f", "c1", "s2", 3, 4.0, 125, 133),  # out of order: c is not in its window, by its own time
    ("g", "c1", "s2", 1, 0.0, 190, 190),
]
COMMAND = ["figures", "--figures", "figures.yaml", "--stream", "stream.yaml", "--input", "payments=in.jsonl"]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stream.yaml").write_text(STREAM)
    Path("figures.yaml").write_text(FIGURES)
    names = ("id", "card", "shop", "cents", "rate", "at", "came")
    Path("in.jsonl").write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS))


def rows(path: str) -> dict[str, tuple[Any, ...]]:
    table = pq.read_table(path)
    assert table.column_names == ["record_id", "event_time", "tries", "before", "seen", "spent"]
    return {row["record_id"]: tuple(row.values())[2:] for row in table.to_pylist()}


def test_a_table_worked_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*COMMAND, "--output", "out/t.parquet", "--json"]) == 0
    assert rows("out/t.parquet") == {
        "a": (1, None, None, 5),
        "b": (1, None, None, 12),
        "c": (2, 1.5, 100, 2**63 - 1),
        "d": (None, None, None, 13),
        "f": (2, 1.5, 100, 3),
        "g": (1, None, 130, None),  # 2**63 + 3 is no number of 64 bits
    }
    first = pq.read_table("out/t.parquet").column("event_time")[0].as_py()
    assert first == dt.datetime(1970, 1, 1, 0, 1, 40, tzinfo=dt.UTC)
    body = json.loads(capsys.readouterr().out)
    assert body == {
        "records": 9,
        "rows": 6,
        "figures": {
            "tries": {"missing": 1},
            "before": {"missing": 4},
            "seen": {"missing": 3},
            "spent": {"missing": 1, "beyond_64_bits": 1},
        },
        "dead_letters": {"duplicate_id": 1},
        "late_records": 2,
        "output": "out/t.parquet",
    }


def test_what_it_says_to_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*COMMAND, "--output", "t.parquet"]) == 0
    found = capsys.readouterr().out
    for text in (
        "9 records, 6 rows in t.parquet",
        "spent: 1 integers beyond 64 bits",
        "not in the table: 1 duplicate_id",
    ):
        assert text in found
    assert "late records, not in the table: 2" in found


def test_a_folder_has_tables_and_shared_figures_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("folder/table.yaml").write_text(FIGURES.replace("allowed_lateness: 10s\n", ""))
    versions = [(1, "active", "1s"), (2, "active", "60s"), (3, "draft", "2s")]
    shops = [SHARED.format(version=number, status=status, window=window) for number, status, window in versions]
    shops.append("{rule_id: r, version: 1, rule_type: threshold, source_topic: payments}\n")
    Path("folder/shops.yaml").write_text("".join(f"- {each}" for each in shops))
    Path("folder/gone.yaml").write_text(shops[0].replace("shops", "gone").replace("active", "retired"))
    assert run_command([*COMMAND, "--figures", "folder", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["figures"]["shops"] == {"missing": 1, "version": 2}
    assert "gone" not in body["figures"]
    assert pq.read_table("figures.parquet").column("shops").to_pylist() == [1, 1, 2, None, 2, 2, 1]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (FIGURES + "---\n" + FIGURES, ["figures.yaml:12: [1].figures.tries", "figures.yaml:4 has another"]),
        (
            FIGURES + "---\n{source_topic: labels, figures: {some: {count: true, window: 1m}}}\n",
            ["labels (figures.yaml:9) and payments (figures.yaml:4)", "those of one stream"],
        ),
        ("{rule_id: r, version: 1}\n", ["unknown field rule_id", "field figures, which is required"]),
        ("", ["found no figures"]),
        (SHARED.format(version=1, status="retired", window="1s"), ["only figures that are retired"]),
        (
            FIGURES
            + "  a: {count: true, window: 1m, conditions: [{field: card, operator: in, value: {list: gone}}]}\n",
            ["refer to gone", "name the folder with --lists"],
        ),
    ],
    ids=["twice", "two streams", "a rule", "nothing", "retired", "a list"],
)
def test_what_it_refuses(capsys: pytest.CaptureFixture[str], text: str, reported: list[str]) -> None:
    Path("figures.yaml").write_text(text)
    assert run_command(COMMAND) == 2
    found = capsys.readouterr().err
    for part in reported:
        assert part in found
    assert not Path("figures.parquet").exists()


def test_no_records_make_a_table_without_rows() -> None:
    Path("in.jsonl").write_bytes(b"")
    assert run_command([*COMMAND, "--output", "t.parquet"]) == 0
    assert pq.read_table("t.parquet").num_rows == 0
    assert rows("t.parquet") == {}


def test_on_the_ingest_clock_nothing_is_too_late(capsys: pytest.CaptureFixture[str]) -> None:
    """Windows are of ingest times: f, which the log has after e, has the clock of 133, before that of e."""
    Path("figures.yaml").write_text(FIGURES.replace("allowed_lateness: 10s", "time_mode: processing_time"))
    assert run_command([*COMMAND, "--output", "t.parquet", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["records"], body["rows"], body["late_records"]) == (9, 7, 0)
    assert {name: row[0] for name, row in rows("t.parquet").items()} == {
        "a": 1,
        "b": 1,
        "c": 2,
        "d": None,
        "e": 3,
        "f": 3,
        "g": 4,
    }


def test_it_writes_over_nothing_that_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("figures.yaml", "stream.yaml", "in.jsonl"):
        before = Path(path).read_bytes()
        assert run_command([*COMMAND, "--output", path]) == 2
        assert f"{path} is what is read" in capsys.readouterr().err
        assert Path(path).read_bytes() == before


def test_a_stream_without_input_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*COMMAND[:-1], "labels=in.jsonl"]) == 2
    assert "found none of stream payments, which is read" in capsys.readouterr().err


LABELS = [("x", "c1", 1, 105, 105), ("y", "c1", 1, 150, 150), ("y", "c1", 1, 150, 151), ("z", "c1", 1, 90, 120)]


def test_figures_of_another_stream_are_as_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    """What had come of it by then, in its windows; its own copies and late records are no matter of the table."""
    figure = "  frauds: {sum: fraud, source_topic: labels, group_by: {card: number}, window: 1h}\n"
    Path("figures.yaml").write_text(FIGURES + figure)
    names = ("id", "number", "fraud", "at", "came")
    Path("labels.jsonl").write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in LABELS))
    assert run_command(COMMAND) == 2
    assert "found none of stream labels" in capsys.readouterr().err
    assert run_command([*COMMAND, "--input", "labels=labels.jsonl", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["records"], body["rows"], body["late_records"], body["figures"]["frauds"]) == (9, 6, 2, {"missing": 1})
    rows = pq.read_table("figures.parquet").to_pylist()
    assert {row["record_id"]: (row["frauds"], row["tries"]) for row in rows} == {
        "a": (0, 1),
        "b": (0, 1),
        "c": (1, 2),
        "d": (None, None),
        "f": (1, 2),
        "g": (2, 1),
    }


PIPELINE = """\
schema_version: 1
name: p
streams: stream.yaml
sources: {payments: {kind: files, path: in.jsonl}}
rules: {kind: directory, path: rules}
figures: shared
defaults: {watermark_delay: 10s, allowed_lateness: 10s}
sinks: [{kind: console}]
"""
RULE = """\
rule_id: shopper
version: 1
rule_type: formula
source_topic: payments
figures: {many: {figure: shops}}
when: many >= 2
emit: every
"""


def test_rules_and_tables_mean_the_same_number(capsys: pytest.CaptureFixture[str]) -> None:
    """A shared figure in the folder that the pipeline names: checked, explained, tried, backtested, and in a table."""
    for folder in ("rules", "shared"):
        Path(folder).mkdir()
    Path("pipeline.yaml").write_text(PIPELINE)
    Path("rules/shopper.yaml").write_text(RULE)
    Path("shared/shops.yaml").write_text(SHARED.format(version=3, status="active", window="60s"))
    with_pipeline = ["--pipeline", "pipeline.yaml"]
    inputs = ["--input", "payments=in.jsonl"]
    assert run_command(["rules", "check", "rules", *with_pipeline]) == 0
    assert run_command(["rules", "check", "rules", "--stream", "stream.yaml"]) == 1
    assert "the id of a shared figure; there are none" in capsys.readouterr().out
    assert run_command(["rules", "check", "rules", "--figures", "shared"]) == 0
    assert run_command(["rules", "list", "--figures", "shared", "--json"]) == 0
    assert run_command(["rules", "show", "shopper", "--figures", "shared"]) == 0
    assert "figure: shops\n    version: 3" in capsys.readouterr().out
    assert run_command(["rules", "explain", "rules", *with_pipeline]) == 0
    assert "many is version 3 of the shared figure shops" in " ".join(capsys.readouterr().out.split())
    assert run_command(["rules", "lint", "rules", *with_pipeline]) == 0
    assert run_command(["rules", "test", "rules", *with_pipeline, *inputs, "--json"]) == 0
    assert run_command(["backtest", *with_pipeline, *inputs, "--output", "alerts.jsonl"]) == 0
    alerts = [json.loads(line) for line in Path("alerts.jsonl").read_text().splitlines()]
    assert run_command(["figures", *with_pipeline, *inputs, "--output", "t.parquet"]) == 0
    rows = pq.read_table("t.parquet").to_pylist()
    assert {row["record_id"]: row["shops"] for row in rows if (row["shops"] or 0) >= 2} == {
        alert["record_id"]: alert["value"] for alert in alerts
    }
    assert {alert["record_id"] for alert in alerts} == {"c", "f"}


RISK = """\
- source_topic: payments
  allowed_lateness: 10s
  figures:
    risk: {risk: true, group_by: card, half_life: 10s}
    tries: {count: true, group_by: card, window: 60s}
- {kind: figure, figure_id: by_shop, version: 1, source_topic: payments, risk: [odd], group_by: shop, half_life: 1h}
"""
RULES = """\
- {rule_id: odd, version: 1, rule_type: threshold, source_topic: payments, score: 16,
   conditions: [{field: cents, operator: in, value: [3, 5]}]}
- {rule_id: often, version: 1, rule_type: velocity, source_topic: payments, group_by: card, window: 40s, score: 64,
   aggregation_type: count, aggregation_threshold: 2}
- {rule_id: figures-0, version: 1, rule_type: formula, source_topic: payments, score: 99, when: tries + risk >= 1,
   time_mode: processing_time,
   figures: {tries: {count: true, group_by: card, window: 1h}, risk: {risk: true, group_by: shop}}}
"""


def test_risk_scores_are_those_of_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """A very late record adds its hits, and has no figures of its own."""
    Path("figures.yaml").write_text(RISK)
    Path("rules.yaml").write_text(RULES)
    lines = [*COMMAND, "--output", "t.parquet", "--rules", "rules.yaml"]
    assert run_command(lines) == 0, capsys.readouterr().err
    found = {row["record_id"]: (row["risk"], row["tries"]) for row in pq.read_table("t.parquet").to_pylist()}
    # odd hits a (at 100), f (125, in time) and e (125, very late); often hits c (at 130). e came before f.
    assert found == {
        "a": (0.0, 1),
        "b": (0.0, 1),
        "c": (2.0, 2),
        "d": (None, None),
        "f": (pytest.approx(16 * 2**-2.5 + 16), 2),
        "g": (pytest.approx(16 * 2**-9.0 + 64 * 2**-6.0 + 2 * 16 * 2**-6.5), 1),
        "e": (None, None),  # too late for the table; by_shop allows more
    }


def test_a_risk_score_without_its_rules(capsys: pytest.CaptureFixture[str]) -> None:
    Path("figures.yaml").write_text(RISK)
    assert run_command([*COMMAND, "--output", "t.parquet"]) == 2
    assert "risk is a risk score; name the rules that it is of with --rules" in capsys.readouterr().err
    Path("rules.yaml").write_text(RULES.replace("odd", "even"))
    assert run_command([*COMMAND, "--output", "t.parquet", "--rules", "rules.yaml"]) == 2
    assert 'found "odd"; expected the id of a rule' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "Missing option '--input'"),
        (["--follow"], "--follow: found no --pipeline"),
        (["--follow", "--pipeline", "p.yaml", "--input", "in.jsonl"], "--follow: found --input"),
        (["--drain", "--input", "in.jsonl"], "--drain: found no --follow"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["figures", "--figures", "figures.yaml", *options]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(("there", "text"), [("file", "expected a folder"), ("others", "Parquet files without")])
def test_what_is_not_followed_into(there: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    if there == "file":
        Path("table").write_text("mine")
    else:
        Path("table").mkdir()
        Path("table/other.parquet").write_text("mine")
    Path("pipeline.yaml").write_text(
        "schema_version: 1\nname: shop\nstreams: stream.yaml\nsources: {payments: {kind: files, path: in}, "
        "labels: {kind: files, path: labels}}\nrules: {kind: directory, path: rules}\nsinks: [{kind: console}]\n"
        "engine: {checkpoint: out/checkpoint}\n"
    )
    Path("rules").mkdir()
    given = ["--figures", "figures.yaml", "--pipeline", "pipeline.yaml", "--output", "table"]
    assert run_command(["figures", *given, "--follow", "--drain"]) == 2
    assert text in capsys.readouterr().err
    assert [path.name for path in Path().rglob("*.parquet")] == (["other.parquet"] if there == "others" else [])
