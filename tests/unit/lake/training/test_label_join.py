"""The labels of a training set, against a twin that looks at every version of every record: no label of later leaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.lake.training.known_by import KnownBy
from crossline.lake.training.label_join import COLUMNS, LabelCounts, LabelJoin, check_names, matched
from crossline.lake.training.label_versions import VERSIONS
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.values import Label

AS_OF_MS = 1_000
INSTANT = pa.timestamp("ms", "UTC")


class Version(NamedTuple):
    """A version of a label; ``is_fraud`` None: withdrawn; ``known_ms`` None: nobody says."""

    record_id: str
    version: int
    is_fraud: bool | None
    known_ms: int | None


@dataclass(frozen=True, slots=True)
class Given:
    """Labels of a test, in pieces of three."""

    given: Sequence[Version]
    dated: bool = True

    def count(self) -> int:
        return len(self.given)

    def versions(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.given), 3):
            rows = [
                (each.record_id, each.version, each.is_fraud, None if each.known_ms is None else each.known_ms * 1_000)
                for each in self.given[start : start + 3]
            ]
            columns = zip(*rows, strict=True)
            arrays = [pa.array(each, kind) for each, kind in zip(columns, VERSIONS.types, strict=True)]
            yield pa.record_batch(arrays, schema=VERSIONS)


Record = tuple[str, int]  # id, event time


def joined(
    records: Sequence[Record], labels: Sequence[Version], known_by: KnownBy, bucket_rows: int = 1 << 20
) -> tuple[list[tuple[bool | None, int | None, bool]], LabelCounts]:
    """What the join gives for each record, in order: label, when it was known, whether it is mature."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        ids, times = (
            pa.array([each for each, _ in records], pa.string()),
            pa.array([at for _, at in records], pa.int64()),
        )
        table = pa.table({"record_id": ids, "event_time": times.cast(INSTANT), "n": pa.array(range(len(records)))})
        pq.write_table(table, folder / "figures.parquet", row_group_size=4)
        counts = LabelJoin(Given(labels), known_by, folder, bucket_rows).write(
            folder / "figures.parquet", folder / "out.parquet"
        )
        found = pq.read_table(folder / "out.parquet")
        assert found.select(table.column_names).equals(table)
        rows = zip(*(found.column(name).to_pylist() for name, _ in COLUMNS), strict=True)
        return [
            (label, None if known is None else round(known.timestamp() * 1_000), mature)
            for label, known, mature in rows
        ], counts


def twin(record: Record, labels: Sequence[Version], known_by: KnownBy) -> tuple[bool | None, int | None, bool]:
    """The last of the versions known by the record's instant, by looking at all of them."""
    _, event_ms = record
    if known_by.after_ms is not None:
        by_ms: int | None = event_ms + known_by.after_ms
    else:
        by_ms = known_by.at_ms
    mature = by_ms is None or by_ms <= known_by.as_of_ms
    stands: Version | None = None
    for each in labels:
        if each.record_id != record[0]:
            continue
        if by_ms is not None and (each.known_ms is None or each.known_ms > by_ms):
            continue
        if stands is None or each.version > stands.version:
            stands = each
    if stands is None or stands.is_fraud is None:
        return None, None, mature
    return stands.is_fraud, stands.known_ms, mature


IDS = st.sampled_from(["a", "b", "c", "", "ä" * 40, "p00001"])
TIMES = st.integers(0, 2_000)
RECORDS = st.lists(st.tuples(IDS, TIMES), max_size=30)
BOUNDS = st.one_of(
    st.integers(0, 800).map(lambda ms: KnownBy(AS_OF_MS, ms)),
    TIMES.map(lambda ms: KnownBy(AS_OF_MS, None, ms)),
    st.just(KnownBy(AS_OF_MS, None)),
)


@st.composite
def label_logs(draw: st.DrawFn) -> list[Version]:
    """Versions of some records in any order: late ones, revisions, withdrawn ones, dates that go back."""
    made = draw(st.lists(st.tuples(IDS, st.sampled_from([True, False, None]), st.none() | TIMES), max_size=25))
    last: dict[str, int] = {}
    log = []
    for record_id, is_fraud, known_ms in made:
        last[record_id] = last.get(record_id, 0) + 1
        log.append(Version(record_id, last[record_id], is_fraud, known_ms))
    return draw(st.permutations(log))


@settings(max_examples=50, deadline=None)
@given(records=RECORDS, labels=label_logs(), known_by=BOUNDS, bucket_rows=st.integers(1, 40))
def test_it_is_what_a_naive_twin_finds(
    records: list[Record], labels: list[Version], known_by: KnownBy, bucket_rows: int
) -> None:
    """Records in the order of their table, with the same id more than once, over any number of buckets and pieces."""
    found, counts = joined(records, labels, known_by, bucket_rows)
    assert found == [twin(each, labels, known_by) for each in records]
    verdicts = [label for label, _, _ in found]
    immature = sum(not mature for *_, mature in found)
    assert counts == LabelCounts(len(records), verdicts.count(True), verdicts.count(False), immature)
    assert counts.without == verdicts.count(None)


@settings(max_examples=50, deadline=None)
@given(records=RECORDS, labels=label_logs(), later=label_logs(), after_ms=st.integers(0, 500))
def test_nothing_that_is_known_later_changes_a_label(
    records: list[Record], labels: list[Version], later: list[Version], after_ms: int
) -> None:
    """No leak: versions that become known behind every record's instant are as if they were not there."""
    known_by = KnownBy(AS_OF_MS, after_ms)
    end_ms = max((at for _, at in records), default=0) + after_ms
    behind = [
        each._replace(
            version=each.version + 1_000, known_ms=None if each.known_ms is None else each.known_ms + end_ms + 1
        )
        for each in later
    ]
    assert joined(records, [*labels, *behind], known_by) == joined(records, labels, known_by)


@settings(max_examples=8, deadline=None)
@given(data=st.data(), at_ms=TIMES)
def test_it_is_what_the_api_says(data: st.DataObject, at_ms: int) -> None:
    """``Cases.labels`` of the API, given the same log, names the same labels for an instant."""
    given_labels = data.draw(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), TIMES), max_size=8))
    last: dict[str, int] = {}
    log = []
    with TemporaryDirectory() as name, closing(Cases(Path(name) / "cases.db")) as cases:
        for record_id, is_fraud, known_ms in given_labels:
            cases.put_label("payments", record_id, is_fraud, who="ada", reason="x", known_ms=known_ms)
            last[record_id] = last.get(record_id, 0) + 1
            log.append(Version(record_id, last[record_id], is_fraud, known_ms))
        api: list[Label] = list(cases.labels(["payments"], known_by_ms=at_ms))
    found, _ = joined([(each, 0) for each in "abc"], log, KnownBy(AS_OF_MS, None, at_ms))
    said = {each.record_id: (each.is_fraud, each.known_ms) for each in api}
    assert [each[:2] for each in found] == [said.get(each, (None, None)) for each in "abc"]


def test_an_example_worked_by_hand() -> None:
    """A chargeback 20 days after the payment, which is taken back 40 days after it."""
    day = 86_400_000
    labels = [Version("p1", 1, True, 20 * day), Version("p1", 2, False, 40 * day)]
    records = [("p1", 0), ("p2", 0)]
    expected = {
        "+0s": (None, None, True),
        "+30d": (True, 20 * day, True),
        "+45d": (False, 40 * day, False),
        "1970-02-01T00:00:00Z": (True, 20 * day, True),
        "now": (False, 40 * day, True),
    }
    for text, mine in expected.items():
        found, _ = joined(records, labels, KnownBy.parse(text, 42 * day))
        assert found == [mine, (None, None, mine[2])], text


def test_a_label_of_within_a_millisecond_is_known_at_its_end() -> None:
    """A store has microseconds."""
    records = pa.table({"record_id": ["a", "a"], "row": [0, 1], "by_ms": [10, 11]})
    known = pa.array([10_001], pa.int64()).cast(pa.timestamp("us", "UTC"))
    versions = pa.table({"record_id": ["a"], "version": [1], "is_fraud": [True], "known_at": known})
    (found,) = matched(records, versions, undated=False)
    assert found.to_pylist() == [{"row": 1, "is_fraud": True, "known_ms": 11}]


@pytest.mark.parametrize("text", ["30d", "+soon", "later", "", "+", "2026-03-01"])
def test_an_instant_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--labels-known-by: found .*; expected a time after each record such as"):
        KnownBy.parse(text, 0)


def test_a_figure_with_the_name_of_a_column_is_refused() -> None:
    check_names(["spent"])
    with pytest.raises(UsageError, match="figure label: found the name of a column of labels"):
        check_names(["spent", "label"])
