"""``crossline alerts`` on a small store."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import CrosslineError, PermanentError, UsageError
from crossline.cli.alerts import command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink

from .alertkit import ALERTS, DEAD, alert

DELIVERED_MS = 1_767_225_607_500  # 2026-01-01T00:00:07.500Z


def store(path: Path, *batches: Delivery) -> Path:
    sink = SqliteSink(path, "payments", clock_ms=lambda: DELIVERED_MS)
    sink.open()
    for batch in batches:
        sink.deliver(batch)
    sink.close()
    return path


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return store(tmp_path / "crossline.db", Delivery("payments", 0, alerts=ALERTS, dead=DEAD))


def run(*arguments: object) -> Result:
    app = typer.Typer()
    command.register(app)
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["alerts", *map(str, arguments)])


def run_ok(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> CrosslineError:
    error = run(*arguments).exception
    assert isinstance(error, CrosslineError)
    return error


def listed(*arguments: object) -> list[str]:
    """First characters of the ids that ``list`` gives."""
    return [json.loads(line)["alert_id"][:4] for line in run_ok("list", *arguments, "--json").stdout.splitlines()]


def test_list_has_the_latest_first(db: Path) -> None:
    result = run_ok("list", "--db", db)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0].split() == ["id", "happened", "severity", "rule", "what"]
    assert [line[:8] for line in lines[1:]] == ["2cdd0000", "11ab0000", "11aa0000"]
    assert lines[1].split()[1:5] == ["2026-01-01T00:00:09.000Z", "high", "card_burst@3", "(shadow)"]
    assert lines[3].endswith("10 payments by account a1 in 60 s (line: 10)")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["2cdd", "11ab", "11aa"]),
        (["--rule", "big_payment"], ["11ab"]),
        (["--kind", "shadow"], ["2cdd"]),
        (["--severity", "high"], ["2cdd", "11aa"]),
        (["--key", "account_id=a2"], ["11ab"]),
        (["--key", "account_id=a2", "--key", "vip=true"], ["11ab"]),
        (["--key", "account_id=a2", "--key", "vip=false"], []),
        (["--since", "2026-01-01T00:00:08Z"], ["2cdd", "11ab"]),
        (["--until", "2026-01-01T01:00:08+01:00"], ["11aa"]),
        (["--since", "1767225608000", "--until", "1767225609000"], ["11ab"]),
        (["--limit", "1"], ["2cdd"]),
    ],
)
def test_filters(db: Path, filters: list[str], expected: list[str]) -> None:
    assert listed("--db", db, *filters) == expected


def test_list_says_when_there_are_more(db: Path) -> None:
    assert "the latest 2 of 3 alerts" in run_ok("list", "--db", db, "--limit", "2").stderr


def test_an_empty_list_says_what_there_is(db: Path, tmp_path: Path) -> None:
    assert "the store has 3 alerts, of: big_payment, card_burst" in run_ok("list", "--db", db, "--key", "x=1").stderr
    assert "did you mean card_burst?" in run_ok("list", "--db", db, "--rule", "card_bursts").stderr
    assert "has no alerts yet" in run_ok("list", "--db", store(tmp_path / "empty.db")).stderr


def test_show_reports_the_story(db: Path) -> None:
    text = run_ok("show", "--db", db, "11aa").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[:2] == ["card_burst@3 high alert", "10 payments by account a1 in 60 s (line: 10)"]
    assert lines[3:] == [
        "alert 11aa0000-0000-5000-8000-000000000001",
        "asks for step_up (score 40)",
        "account_id a1",
        "record t0000007 of payments",
        "line 10 >= 10",
        "window 2025-12-31T23:59:07.120Z to 2026-01-01T00:00:07.120Z (60 s)",
        "happened 2026-01-01T00:00:07.120Z",
        "ingested 2026-01-01T00:00:07.180Z (+60 ms)",
        "detected 2026-01-01T00:00:07.300Z (+120 ms)",
        "delivered 2026-01-01T00:00:07.500Z (+200 ms)",
        "rests on 73 records, of which the last 3",
        "1 t0000005",
        "2 t0000006",
        "3 t0000007",
    ]


def test_show_of_a_sequence_names_the_records_of_each_step(tmp_path: Path) -> None:
    steps = [{"name": "failed", "record_ids": ["t1", "t2"]}, {"name": "success", "record_ids": ["t3"]}]
    evidence = {"count": 3, "record_ids": ["t1", "t2", "t3"], "steps": steps}
    db = store(tmp_path / "s.db", Delivery("p", 0, alerts=[alert("55", evidence=evidence)]))
    lines = [" ".join(line.split()) for line in run_ok("show", "--db", db, "55").stdout.splitlines()]
    at = lines.index("failed t1, t2")
    assert lines[at + 1 : at + 6] == ["success t3", "rests on 3 records", "1 t1", "2 t2", "3 t3"]


def test_show_of_a_formula_has_all_that_it_read(tmp_path: Path) -> None:
    window = {"window_start": "2026-01-01T00:00:00.000Z", "window_end": "2026-01-01T00:10:00.000Z"}
    figures = {"tries": {"value": 7, **window, "count": 7}, "usual": {"value": None, **window, "count": 1}}
    fields = {"channel": "web", "amount_cents": None}
    evidence = {"count": 7, "record_ids": ["t7"], "figures": figures, "fields": fields, "confidence": 0.35}
    db = store(tmp_path / "f.db", Delivery("p", 0, alerts=[alert("44", evidence=evidence)]))
    lines = [" ".join(line.split()) for line in run_ok("show", "--db", db, "44").stdout.splitlines()]
    at = lines.index("tries 7 (of 7 records; 10 min to 2026-01-01T00:10:00.000Z)")
    assert lines[at + 1 : at + 6] == [
        "usual missing (of 1 record; 10 min to 2026-01-01T00:10:00.000Z)",
        "channel web",
        "amount_cents missing",
        "confidence 0.35",
        "rests on 7 records, of which the last 1",
    ]


def test_show_of_a_rule_without_window_has_the_figures_it_read(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("value", "operator", "threshold", "window_start", "window_end"))
    evidence = {"count": 1, "record_ids": ["t7"], "figures": {"amount_cents": 2500, "channel": "web"}}
    more = {"owner": "risk", "tags": ["pci", "web"], "sink_topic": "alerts.web"}
    one = alert("33", key={}, evidence=evidence, **nothing, **more)
    db = store(tmp_path / "c.db", Delivery("p", 0, alerts=[one]))
    lines = [" ".join(line.split()) for line in run_ok("show", "--db", db, "33").stdout.splitlines()]
    assert {"amount_cents 2500", "channel web", "rests on 1 record", "1 t7"} <= set(lines)
    assert {"owner risk", "tags pci, web", "sink topic alerts.web"} <= set(lines)
    assert not any(line.startswith(("window", "line")) for line in lines)


def test_show_lists_the_records_of_the_window(tmp_path: Path) -> None:
    records = [{"record_id": "t5", "value": 3}, {"record_id": "t7", "value": 4.5}]
    one = alert("44", evidence={"count": 2, "record_ids": ["t5", "t7"], "records": records})
    db = store(tmp_path / "c.db", Delivery("p", 0, alerts=[one]))
    lines = [" ".join(line.split()) for line in run_ok("show", "--db", db, "44").stdout.splitlines()]
    assert lines[-2:] == ["1 t5 value 3", "2 t7 value 4.5"]


def test_what_a_record_supplied_does_not_steer_the_terminal(tmp_path: Path) -> None:
    one = alert("55", message="red \x1b[31m\nline", record_id="\x07t")
    db = store(tmp_path / "c.db", Delivery("p", 0, alerts=[one]))
    for arguments in (["list"], ["show", "55"]):
        text = run_ok(*arguments, "--db", db).stdout
        assert "red \\x1b[31m\\nline" in text
        assert not {"\x1b", "\x07"} & set(text)


def test_show_as_json_is_the_alert(db: Path) -> None:
    shown = json.loads(run_ok("show", "--db", db, "2CDD", "--json").stdout)
    assert shown == {**ALERTS[2], "delivered_at": "2026-01-01T00:00:07.500Z"}


def test_show_of_an_alert_that_two_pipelines_found_shows_both(tmp_path: Path) -> None:
    found = alert("11aa0000-0000-5000-8000-000000000001")
    batches = [Delivery(name, 0, alerts=[{**found, "message": f"of {name}"}]) for name in ("p", "q")]
    db = store(tmp_path / "crossline.db", *batches)
    lines = run("show", "11aa", "--db", db, "--json").stdout.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["of p", "of q"]
    assert all(text in run("show", "11aa", "--db", db).stdout for text in ("of p", "of q"))


def test_a_prefix_of_several_ids_lists_them(db: Path) -> None:
    error = refused("show", "--db", db, "11a")
    assert error.exit_code == 1
    assert "several alerts start with '11a'" in str(error)
    assert ALERTS[0]["alert_id"] in str(error)
    assert ALERTS[1]["alert_id"] in str(error)


def test_an_id_that_is_not_there(db: Path) -> None:
    error = refused("show", "--db", db, "99")
    assert error.exit_code == 1
    assert "no alert" in str(error)
    assert "it has 3 alerts" in str(error)


def test_export_as_json_lines_is_in_order_of_time(db: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = run_ok("export", "--db", db, "--output", out)
    assert "3 alerts written" in result.stderr
    assert [json.loads(line)["alert_id"] for line in out.read_text().splitlines()] == [a["alert_id"] for a in ALERTS]
    assert [path.name for path in tmp_path.glob("out*")] == ["out.jsonl"]


def test_export_as_csv(db: Path) -> None:
    rows = list(
        csv.DictReader(io.StringIO(run_ok("export", "--db", db, "--format", "csv", "--severity", "low").stdout))
    )
    assert len(rows) == 1
    assert rows[0]["rule_id"] == "big_payment"
    assert json.loads(rows[0]["key"]) == {"account_id": "a2", "vip": True}
    assert (rows[0]["evidence_count"], rows[0]["corrects"]) == ("73", "")
    assert json.loads(rows[0]["evidence_record_ids"]) == ["t0000005", "t0000006", "t0000007"]


def test_export_of_nothing_is_a_header(db: Path) -> None:
    assert run_ok("export", "--db", db, "--format", "csv", "--rule", "x").stdout.count("\n") == 1
    assert not run_ok("export", "--db", db, "--rule", "x").stdout


def test_export_with_a_summary_as_json(db: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert json.loads(run_ok("export", "--db", db, "--output", out, "--json").stdout) == {
        "alerts": 3,
        "format": "jsonl",
        "output": str(out),
    }
    assert isinstance(refused("export", "--db", db, "--json"), UsageError)


def test_export_to_a_folder_that_is_not_there(db: Path, tmp_path: Path) -> None:
    error = refused("export", "--db", db, "--output", tmp_path / "no" / "out.jsonl")
    assert isinstance(error, PermanentError)
    assert "No such file or directory" in str(error)


def test_dead_letters_by_reason_with_their_places(db: Path) -> None:
    lines = [" ".join(line.split()) for line in run_ok("dead", "--db", db).stdout.splitlines()]
    assert lines[1:3] == ["bad_json 2", "duplicate_id 1"]
    assert lines[5:] == [
        'bad_json payments in/a.jsonl:120 unexpected end {"amount": 1',
        "bad_json payments in/a.jsonl:180 not UTF-8 \\xff\\xfe",
        "duplicate_id payments in/a.jsonl:240 came before (in the source)",
    ]


def test_dead_letters_as_json(db: Path) -> None:
    rows = [json.loads(line) for line in run_ok("dead", "--db", db, "--json").stdout.splitlines()]
    assert [row.get("raw") for row in rows] == ['{"amount": 1', None, None]
    assert [row.get("raw_base64") for row in rows] == [None, "//4=", None]
    assert [row["offset"] for row in rows] == [120, 180, 240]


def test_dead_letters_of_one_reason(db: Path, tmp_path: Path) -> None:
    only = run_ok("dead", "--db", db, "--reason", "duplicate_id", "--json").stdout
    assert [json.loads(line)["record_id"] for line in only.splitlines()] == ["t1"]
    assert "bad_json (2), duplicate_id (1)" in run_ok("dead", "--db", db, "--reason", "nope").stderr
    assert "no dead letters" in run_ok("dead", "--db", store(tmp_path / "empty.db")).stderr


PIPELINE = """
schema_version: 1
name: payments
streams: stream.yaml
sources:
  payments: {kind: files, path: in/*.jsonl}
rules: {kind: directory, path: rules/}
sinks:
  - {kind: console}
  - {kind: sqlite, path: out/crossline.db}
"""
STREAM = """
schema_version: 1
streams:
  payments:
    format: json
    id: transaction_id
    event_time: {field: event_time, unit: ms}
    fields: {transaction_id: string, event_time: integer}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "stream.yaml").write_text(STREAM)
    store(tmp_path / "out" / "crossline.db", Delivery("payments", 0, alerts=ALERTS))
    return tmp_path


def test_the_store_of_a_pipeline(folder: Path) -> None:
    assert listed("--pipeline", folder / "pipeline.yaml", "--rule", "big_payment") == ["11ab"]


def test_the_pipeline_of_this_folder_is_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert listed("--rule", "big_payment") == ["11ab"]


def test_a_pipeline_without_a_store(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text("\n".join(line for line in PIPELINE.splitlines() if "sqlite" not in line))
    assert "no sink of kind sqlite" in str(refused("list", "--pipeline", path))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "which store?"),
        (["--db", "none.db"], "there is no store at none.db"),
        (["--pipeline", "none.yaml"], "cannot be read"),
        (["--db", "a", "--pipeline", "b"], "not both"),
        (["--db", "none.db", "--key", "a1"], "field=value"),
        (["--db", "none.db", "--since", "yesterday"], "--since: 'yesterday' is not an instant"),
    ],
)
def test_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused("list", *arguments)
    assert error.exit_code == 2
    assert text in str(error)


def test_a_spreadsheet_runs_nothing_of_an_export(tmp_path: Path) -> None:
    hostile = alert(
        "66",
        message='=HYPERLINK("http://x")\n\x1b[31m',
        record_id="-2+3",
        key={"@k": "=1\u202e\x9b"},
        score=-7,
        value=-12.5,
        threshold=-1e300,
        evidence={"count": 2, "record_ids": ["=1", "-5"]},
    )
    plain = alert("77", record_id="-5", message="-12.50")
    db = store(tmp_path / "c.db", Delivery("p", 0, alerts=[hostile, plain]))
    out = tmp_path / "out.csv"
    run_ok("export", "--db", db, "--format", "csv", "--output", out)
    with out.open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert out.read_text(encoding="utf-8").replace("\n", "").isprintable()
    assert first["message"] == '\'=HYPERLINK("http://x")\\n\\x1b[31m'
    assert (first["record_id"], second["record_id"], second["message"]) == ("'-2+3", "-5", "-12.50")
    assert (first["score"], first["value"], float(first["threshold"])) == ("-7", "-12.5", -1e300)
    assert json.loads(first["key"]) == {"@k": "=1\u202e\x9b"}
    assert json.loads(first["evidence_record_ids"]) == ["=1", "-5"]


def test_dead_letters_do_not_steer_the_terminal(tmp_path: Path) -> None:
    letter = DeadLetter(
        "payments", "bad_json", "found \x1b]0;x\x07", "in/\u202ea\x1b[2J.jsonl", 1, b"\x1b[31m\xe2\x80\xae"
    )
    db = store(tmp_path / "c.db", Delivery("p", 0, dead=[letter]))
    text = run_ok("dead", "--db", db).stdout
    assert text.replace("\n", "").isprintable()
    assert "\\u202ea\\x1b[2J" in text


def test_the_store_that_is_read_is_not_written_over(db: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(db)
    for output in (db, tmp_path / "link", tmp_path / "x" / ".." / db.name):
        (tmp_path / "x").mkdir(exist_ok=True)
        assert isinstance(refused("export", "--db", db, "--output", output), UsageError)
    assert len(listed("--db", db)) == 3


def test_an_export_to_a_device_leaves_the_device(db: Path, tmp_path: Path) -> None:
    link = tmp_path / "nothing"
    link.symlink_to("/dev/null")
    run_ok("export", "--db", db, "--output", link)
    assert link.is_symlink()
    assert link.is_char_device()


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize("arguments", [["list"], ["show", "11aa"], ["dead"]])
def test_what_is_listed_fits_the_screen(
    db: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], columns: int
) -> None:
    widest = {" ".join(line.split()) for line in run_ok(*arguments, "--db", db).stdout.splitlines()}
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run_ok(*arguments, "--db", db).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert columns < 200 or widest == {" ".join(line.split()) for line in lines}
    if columns >= 40:
        # Rows may be stacked, which repeats the headings; every word of the rows is there.
        rows = [line for line in widest if not line.startswith(("id happened", "reason where", "reason dead"))]
        words = {word for row in rows for word in row.split() if len(word) <= columns // 2}
        assert words <= set(" ".join(lines).split())
