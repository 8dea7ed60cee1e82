"""The lake of a pipeline, as the source of alerts and of their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.cli.alerts.store_options import DEFAULT_PIPELINE
from crossline.cli.extras import missing
from crossline.cli.launch.process import do_without_pandas
from crossline.io.stores.protocol import AlertFilter, StoredAlert

if TYPE_CHECKING:
    from crossline.backtest.record_search import RecordQuery, SourceRecord
    from crossline.basics.streams.schema import StreamSpec
    from crossline.lake.lookup.alert_lookup import AlertLookup, LakeAlert, LakeRecord
    from crossline.settings.config import PipelineConfig

FRESH_S = 1.0
Found = TypeVar("Found")


@dataclass(slots=True)
class LakeSource:
    """Reads a lake for a command that can do without it: what fails is reported in ``why``, once.

    Attributes:
        config: The pipeline.
        why: Why the lake was not read, or did not have something; empty: nothing failed.
    """

    config: PipelineConfig
    why: str = ""
    _lookup: AlertLookup | None = None
    _known: dict[str, LakeAlert | None] = field(default_factory=dict)

    def close(self) -> None:
        """Close the connections to the catalog."""
        if self._lookup is not None:
            self._lookup.reader.close()
            self._lookup = None

    def covers(self, stored: StoredAlert) -> bool:
        """Whether all tables have the batch of an alert; if not, ``why`` says how far they are."""
        alert = stored.alert
        name: str = alert["alert_id"]
        if name not in self._known:
            at_ms = parse_instant_ms(alert["event_time"])
            found: list[LakeAlert] = self._read(lambda lookup: lookup.find(name, 1, at_ms), [])
            self._known[name] = found[0] if found else None
        known = self._known[name]
        if known is None:
            self.why = self.why or f"the lake does not have the alert{self._so_far()}"
            return False
        if self._read(lambda lookup: lookup.covers(known), default=False):
            return True
        self.why = self.why or f"the lake does not have all of the alert's batch {known.batch} yet{self._so_far()}"
        return False

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """The alerts whose id starts with ``prefix``."""
        found: list[LakeAlert] = self._read(lambda lookup: lookup.find(prefix, limit), [])
        self._known |= {each.alert["alert_id"]: each for each in found}
        return [StoredAlert(each.alert, self.config.name, each.position) for each in found]

    def records(self, stream: str, wanted: RecordQuery, around_ms: int, until_s: float) -> dict[str, SourceRecord]:
        """The records that ``wanted`` asks for, by id; see ``AlertLookup.records``."""
        return self._read(lambda lookup: lookup.records(stream, wanted, around_ms, until_s), {})

    def of_keys(
        self,
        stream: str,
        spec: StreamSpec,
        keys: Collection[Mapping[str, Any]],
        since_ms: int,
        until_ms: int,
        most: int,
    ) -> list[LakeRecord] | None:
        """The records of keys within a span; None if the lake cannot be read. See ``AlertLookup.of_keys``."""
        return self._read(lambda lookup: lookup.of_keys(stream, spec, keys, since_ms, until_ms, most), None)

    def read(self) -> AlertLookup:
        """What reads the lake. Raises UsageError where that is not possible."""
        found = self._read(lambda lookup: lookup, None)
        if found is None:
            raise UsageError(f"pipeline {self.config.name}: {self.why}")
        return found

    def _so_far(self) -> str:
        mark = self._read(lambda lookup: lookup.reader.watermark(), None)
        return "" if mark is None else f": it is whole up to batch {mark.batch}"

    def _read(self, read: Callable[[AlertLookup], Found], default: Found) -> Found:
        """What ``read`` gives, or ``default`` and the reason where it fails."""
        try:
            if self._lookup is None:
                self._lookup = _opened(self.config)
            return read(self._lookup)
        except ModuleNotFoundError as error:
            self.why = missing("the lake", error.name) or f"the lake was not read: {error}"
        except Exception as error:  # noqa: BLE001 - catalogs, drivers and stores raise errors of their own
            self.why = f"the lake was not read: {error}"
        return default


def _opened(config: PipelineConfig) -> AlertLookup:
    """Raises UsageError where no lake was made yet: a command that reads makes none."""
    from crossline.lake.catalogs.catalog import open_lake, sqlite_file
    from crossline.lake.lookup.alert_lookup import AlertLookup
    from crossline.lake.reading import LakeReader

    place = sqlite_file(config)
    if place is not None and not place.exists():
        raise UsageError(f"found no catalog {place}; the lake has nothing yet")
    do_without_pandas()
    return AlertLookup(LakeReader(open_lake(config), config, fresh_s=FRESH_S))


class LakeAlerts:
    """The alerts of a lake, as ``crossline alerts show`` reads them."""

    def __init__(self, lake: LakeSource) -> None:
        self.lake = lake
        self.name = f"the lake of pipeline {lake.config.name}"

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """Those whose id starts with ``prefix``."""
        return self.lake.find(prefix, limit)

    def count(self, which: AlertFilter) -> int:  # noqa: ARG002 - asked for all
        """How many there are, corrections included."""
        return self.lake.read().count()

    def alerts(self, which: AlertFilter, *, newest_first: bool = True) -> Iterator[dict[str, Any]]:
        """Those that match, in order of event time."""
        return self.lake.read().alerts(which, newest_first=newest_first)

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:  # noqa: ARG002 - one pipeline
        """The body of a rule's version, where the lake has its publication."""
        return self.lake.read().rule_body(rule_id, version)

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:  # noqa: ARG002
        """Positions of dead letters and late records with these ids."""
        return self.lake.read().refused(stream, record_ids)


@contextmanager
def lake_of(config: PipelineConfig | None) -> Iterator[LakeSource | None]:
    """The lake of a pipeline for as long as the context lasts; None where it has none."""
    if config is None or config.lake is None:
        yield None
        return
    source = LakeSource(config)
    try:
        yield source
    finally:
        source.close()


@contextmanager
def lake_of_options(pipeline: Path | None, *, other_store: bool) -> Iterator[LakeSource | None]:
    """The lake of the pipeline that the options name.

    Args:
        pipeline: The pipeline file; None: ``pipeline.yaml`` here, unless there is none.
        other_store: Whether the options name a store apart from a pipeline.
    """
    from crossline.rule_registry.content import read_pipeline_in_place

    path = pipeline or (DEFAULT_PIPELINE if DEFAULT_PIPELINE.is_file() and not other_store else None)
    with ExitStack() as stack:
        config = None if path is None else read_pipeline_in_place(path)
        yield stack.enter_context(lake_of(config))
