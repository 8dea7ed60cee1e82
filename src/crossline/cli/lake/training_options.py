"""The options of ``crossline figures`` for training sets: labels, and a table of the lake."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant, parse_instant_ms

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestSpec
    from crossline.lake.reading import LakeReader
    from crossline.lake.training.label_join import LabelCounts
    from crossline.lake.training.label_versions import LabelSource
    from crossline.rules.figure_tables import PlacedFigure

OfLake = Annotated[
    bool,
    typer.Option("--labels", help="Add the label of each record from the lake: label, label_known_at, label_mature."),
]
LabelsFile = Annotated[
    str | None,
    typer.Option(
        "--labels-file",
        metavar="FILE|URL",
        help="Labels from elsewhere in place of --labels: CSV, JSON lines or Parquet with the record's id, is_fraud "
        "and known_at; labels of crossline generate; cases.db of the API; or a store, postgresql://HOST/DB.",
    ),
]
KnownBy = Annotated[
    str | None,
    typer.Option(
        "--labels-known-by",
        metavar="+TIME|INSTANT|now",
        help="Labels known by then count: +30d after each record's event time, an instant for all records, or now "
        "for all labels. By default +0s, the record's own event time.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--labels-as-of", metavar="INSTANT", help="Only labels that were given by then; by default by now."),
]
OutputTable = Annotated[
    str | None,
    typer.Option(
        "--output-table",
        metavar="NAME",
        help="Write the rows into this Iceberg table beside those of the lake; its rows are replaced in one commit.",
    ),
]


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The values of the options."""

    of_lake: bool
    file: str | None
    known_by: str | None
    as_of: str | None
    table: str | None

    @property
    def labelled(self) -> bool:
        """Whether there are labels."""
        return self.of_lake or self.file is not None

    def files(self) -> list[Path]:
        """The files that are read."""
        return [] if self.file is None else [Path(self.file)]

    def check(self, pipeline: str | None, *, from_lake: bool, follow: bool) -> None:
        """Which go together. Raises UsageError."""
        if self.of_lake and self.file is not None:
            raise UsageError("--labels: found --labels-file; expected one of the two")
        for option, given in (("--labels-known-by", self.known_by), ("--labels-as-of", self.as_of)):
            if given is not None and not self.labelled:
                raise UsageError(f"{option}: found no labels; expected --labels or --labels-file")
        if follow and (self.labelled or self.table is not None):
            option = "--output-table" if self.table is not None else "--labels"
            raise UsageError(f"{option}: found --follow; expected --from-lake or --input, which have an end")
        for option, wanted in (("--labels", self.of_lake), ("--output-table", self.table is not None)):
            if wanted and pipeline is None:
                raise UsageError(f"{option}: found no --pipeline; expected one with a section lake")
        if self.of_lake and not from_lake:
            raise UsageError("--labels: found no --from-lake; expected it, or --labels-file with the labels")

    def training(self, judged: BacktestSpec, declared: Sequence[PlacedFigure], pipeline: str | None) -> Training | None:
        """What is done with the figures; None: nothing. Raises UsageError."""
        if not self.labelled and self.table is None:
            return None
        from crossline.cli.lake.lake_options import open_reader
        from crossline.lake.training.label_join import check_names

        if self.labelled:
            check_names(each.name for each in declared)
        needs_lake = self.of_lake or self.table is not None
        reader = open_reader(Path(str(pipeline))) if needs_lake else None
        stream = declared[0].stream
        found = Training(self, reader, stream, judged.history.streams[stream].id, time.time_ns() // 1_000_000)
        found.check()
        return found


@dataclass(frozen=True, slots=True)
class Training:
    """What is done with the figures of a stream's records at ``now_ms``, epoch milliseconds."""

    options: TrainingOptions
    reader: LakeReader | None
    stream: str
    id_field: str
    now_ms: int

    @property
    def as_of_ms(self) -> int:
        """When labels are read."""
        given = self.options.as_of
        try:
            return self.now_ms if given is None else parse_instant_ms(given)
        except ValueError as error:
            raise UsageError(f"--labels-as-of: {error}") from None

    def check(self) -> None:
        """Raises UsageError before anything is computed."""
        from crossline.lake.training.known_by import KnownBy as Bound

        Bound.parse(self.options.known_by, self.as_of_ms)
        if self.options.table is not None:
            self._table().check()

    def computed(self, output: Path, folder: Path) -> Path:
        """Where the figures are written: beside their labels they are only in ``folder``."""
        return folder / "figures.parquet" if self.options.labelled else output

    def write(self, figures: Path, output: Path, folder: Path) -> dict[str, Any]:
        """Write the figures with their labels to ``output``, and to the table; what the summary says about it."""
        from crossline.lake.training.known_by import KnownBy as Bound
        from crossline.lake.training.label_join import LabelJoin

        found: dict[str, Any] = {}
        about: dict[str, str] = {}
        if self.options.labelled:
            bound = Bound.parse(self.options.known_by, self.as_of_ms)
            counts = LabelJoin(self._labels(dated=not bound.takes_undated), bound, folder).write(figures, output)
            known_by = self.options.known_by or "+0s"
            found["labels"] = {"known_by": known_by, "as_of": format_instant(self.as_of_ms), **_counts(counts)}
            about = {"crossline.labels-known-by": known_by, "crossline.labels-as-of": format_instant(self.as_of_ms)}
        if self.options.table is not None:
            found["table"] = self.options.table
            found["snapshot"] = self._table().replace(output, about)
        return found

    def _labels(self, *, dated: bool) -> LabelSource:
        from crossline.lake.training.label_files import FileLabels
        from crossline.lake.training.label_versions import LakeLabels

        if self.options.file is not None:
            return FileLabels(self.options.file, self.stream, self.id_field, self.as_of_ms, dated)
        assert self.reader is not None  # noqa: S101 - it was opened
        return LakeLabels(self.reader, self.stream, self.as_of_ms)

    def _table(self) -> Any:
        from crossline.lake.training.training_table import TrainingTable

        reader = self.reader
        assert reader is not None  # noqa: S101 - it was opened
        assert reader.config.lake is not None  # noqa: S101 - as above
        own = frozenset(layout.name for layout in reader.layouts())
        return TrainingTable(reader.lake, str(self.options.table), own, reader.config.lake.snapshots_max)


def _counts(counts: LabelCounts) -> dict[str, int]:
    return {
        "fraud": counts.fraud,
        "legitimate": counts.legitimate,
        "without": counts.without,
        "immature": counts.immature,
    }


def training_lines(found: dict[str, Any]) -> Iterator[str]:
    """What the summary of a training set says beside that of the figures."""
    labels = found.get("labels")
    if labels is not None:
        known = f"{labels['fraud']:,} fraud, {labels['legitimate']:,} legitimate, {labels['without']:,} without"
        yield f"labels known by {labels['known_by']}: {known}"
        if labels["immature"]:
            yield f"{labels['immature']:,} rows are not mature: their labels may still come after {labels['as_of']}"
        if labels["without"] == found["rows"] and found["rows"]:
            yield "no record has a label by then; --labels-known-by +30d takes those known 30 days after each record"
    if "snapshot" in found:
        yield f"table {found['table']}, snapshot {found['snapshot']}"
