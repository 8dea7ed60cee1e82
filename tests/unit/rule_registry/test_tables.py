"""Tables as their files change: what is taken up, from when, what is refused, and what a restart finds in the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.basics.errors import StateError, UsageError
from crossline.rule_registry.events import RuleEvent, event_from_line
from crossline.rule_registry.table_log import TableLog, TableStore
from crossline.rule_registry.tables import TablesDirectory, forms_of, streams_of, tables_in
from crossline.runtime.snapshot.tables import join_of, open_table
from crossline.settings.config import PipelineConfig, in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: p
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, account: string, at: integer}}
  other: {id: id, event_time: {field: at}, fields: {id: string, at: integer}}
sources: {s: {kind: files, path: in/}, other: {kind: files, path: in/}}
rules: {kind: directory, path: rules/}
enrich:
  profile: {kind: files, path: profile.csv, key: account, fields: {country: string%s}}
sinks: [{kind: console}]
"""


class Harness:
    """A table, the folder that it stands in, and the log of what became of it."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self.log: list[RuleEvent] = []
        self.begin(more)

    def begin(self, more: str = "") -> list[RuleEvent]:
        """As a run starts on the log there is."""
        config = in_folder(load_pipeline(PIPELINE % more, "pipeline.yaml", str), str(self.folder))
        self.config: PipelineConfig = config
        self.store = TableStore(self.folder / "p.jsonl", self.folder / "sorted", forms_of(config))
        self.tables = TablesDirectory(config, self.store)
        self.write_if_none("account,country\na1,NO\n")
        begun = self.tables.start(self.log, 0)
        self._logged(begun)
        return begun

    def write_if_none(self, text: str) -> None:
        if not (self.folder / "profile.csv").exists() and not self.log:
            self.write(text)

    def write(self, text: str) -> None:
        (self.folder / "profile.csv").write_text(text, encoding="utf-8")

    def take_up(self, begins_ms: dict[str, int | None]) -> list[RuleEvent]:
        changes = self.tables.poll()
        assert changes is not None
        events = self.tables.events(changes, 1, begins_ms)
        self.tables.take(changes, events)
        self._logged(events)
        return events

    def _logged(self, events: list[RuleEvent]) -> None:
        self.log += [event_from_line(event.to_line()) for event in events]

    def held(self) -> list[tuple[int, list[str]]]:
        """From when which countries stand there, by the log alone."""
        log = TableLog(self.store, streams_of(self.config)).after(self.log)
        join = join_of("profile", self.config.streams["s"], "s", log.whole())
        return [(each.start_ms, sorted(each.table.fields["country"].to_pylist())) for each in join.held]


BEGINNING = -(2**62)


def test_a_change_holds_from_its_instant_and_a_bad_one_keeps_the_last(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    assert [(each.event, each.begins_ms, each.text) for each in harness.log] == [
        ("table_changed", {}, "table profile: 1 rows")
    ]
    assert harness.tables.poll() is None
    harness.write("account,country\na1,DK\na2,SE\n")
    (changed,) = harness.take_up({"s": 100, "other": 7})
    assert (changed.event, changed.begins_ms) == ("table_changed", {"s": 100}), "of the streams that it is for"
    harness.write("account,country\na1,DK\na1,SE\n")
    (refused,) = harness.take_up({"s": 200})
    assert refused.event == "refused"
    text = '  found account "a1" again; expected one row for each key\n  it stands in profile.csv:2'
    assert refused.text == f"{tmp_path}/profile.csv:3\n{text}"
    assert harness.held() == [(BEGINNING, ["NO"]), (100, ["DK", "SE"])]
    harness.begin()
    assert harness.take_up({"s": 300}) == [], "reported once for each content, over restarts"
    (tmp_path / "profile.csv").unlink()
    (absent,) = harness.take_up({"s": 400})
    assert (absent.event, "stays as it was" in str(absent.text)) == ("absent", True)
    harness.write("account,country\n")
    (emptied,) = harness.take_up({"s": 500})
    assert (emptied.event, emptied.text) == ("table_changed", "table profile: 0 rows")
    assert harness.held() == [(BEGINNING, ["NO"]), (100, ["DK", "SE"]), (500, [])]


def test_what_changed_while_nothing_ran_comes_with_the_first_look(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.write("account,country\na1,DK\n")
    assert harness.begin() == []
    assert harness.held() == [(BEGINNING, ["NO"])]
    (changed,) = harness.take_up({"s": 100})
    assert changed.begins_ms == {"s": 100}
    assert harness.begin() == []
    assert harness.tables.poll() is None, "the log knows what stands there"


def test_contents_are_made_again_from_what_is_kept_beside_the_log(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.write("account,country\na1,DK\n")
    harness.take_up({"s": 100})
    harness.store.prune(())
    assert list((tmp_path / "sorted").iterdir()) == []
    assert harness.held() == [(BEGINNING, ["NO"]), (100, ["DK"])]
    harness.write("account,country,city\na1,DK,Ribe\n")
    harness.begin(", city: string")  # declared since: earlier contents lack it
    assert harness.held() == [(BEGINNING, ["NO"]), (100, ["DK"])]
    harness.store.prune(())
    for path in (tmp_path / "tables").iterdir():
        path.unlink()
    with pytest.raises(StateError, match="what stood in table profile, cannot be read"):
        harness.held()


def test_a_file_that_does_not_fit_a_new_declaration_is_reported_at_the_start(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    with pytest.raises(UsageError, match="found no column city"):
        harness.begin(", city: string?")
    assert harness.begin() == []


def test_a_table_that_cannot_be_read_is_reported_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "profile.csv").write_text("account,contry\n", encoding="utf-8")
    with pytest.raises(UsageError, match="did you mean contry"):
        Harness(tmp_path)
    (tmp_path / "profile.csv").unlink()
    config = in_folder(load_pipeline(PIPELINE % "", "pipeline.yaml", str), str(tmp_path))
    with pytest.raises(UsageError, match=r"table profile: found no file .*profile\.csv; expected a file or a folder"):
        tables_in(config, tmp_path / "now", ["profile"])


def test_files_of_a_folder_and_their_names(tmp_path: Path) -> None:
    (tmp_path / "profile.csv").mkdir()
    (tmp_path / "profile.csv" / "a.csv").write_text("account,country\na1,NO\n", encoding="utf-8")
    (tmp_path / "profile.csv" / "notes.txt").write_text("not a table", encoding="utf-8")
    harness = Harness(tmp_path)
    (tmp_path / "profile.csv" / "b.jsonl").write_text('{"account": "a2", "country": "SE"}\n', encoding="utf-8")
    (changed,) = harness.take_up({"s": 100})
    assert sorted(changed.files or {}) == ["a.csv", "b.jsonl"]
    assert harness.held() == [(BEGINNING, ["NO"]), (100, ["NO", "SE"])]


def test_parquet_and_what_is_none(tmp_path: Path) -> None:
    config = in_folder(load_pipeline((PIPELINE % "").replace("profile.csv", "a.parquet"), "p", str), str(tmp_path))
    pq.write_table(pa.table({"account": ["a1"], "country": ["NO"]}), tmp_path / "a.parquet")
    (version,) = tables_in(config, tmp_path / "now", ["profile"])["profile"]
    assert open_table(version.path).fields["country"].to_pylist() == ["NO"]
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="expected a Parquet file that can be read"):
        tables_in(config, tmp_path / "now", ["profile"])


def test_a_file_with_another_ending_is_refused(tmp_path: Path) -> None:
    config = in_folder(load_pipeline((PIPELINE % "").replace("profile.csv", "profile.xls"), "p", str), str(tmp_path))
    (tmp_path / "profile.xls").write_bytes(b"?")
    with pytest.raises(UsageError, match="a name without a known ending"):
        tables_in(config, tmp_path / "now", ["profile"])
