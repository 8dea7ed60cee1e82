"""The origin of the records of an alert, from the options of ``crossline alerts show``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.times import parse_instant_ms
from crossline.cli.alerts.lake_source import LakeSource
from crossline.cli.alerts.record_origin import RecordOrigin
from crossline.cli.alerts.records import Seen, seen
from crossline.cli.terminal.notes import note
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.io.stores.protocol import AlertFilter, StoredAlert

DEFAULT_PIPELINE = Path("pipeline.yaml")


class AlertReader(Protocol):
    """A store, or a file of alerts."""

    name: str

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """Those whose id starts with ``prefix``."""
        ...

    def count(self, which: AlertFilter) -> int:
        """How many there are."""
        ...

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:
        """The body of a rule's version, where it is known."""
        ...

    def alerts(self, which: AlertFilter, *, newest_first: bool = True) -> Iterator[dict[str, Any]]:
        """Those that are wanted."""
        ...

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Positions of records with these ids that do not count."""
        ...


@dataclass(frozen=True, slots=True)
class OriginOptions:
    """The options; ``for_s``: how many seconds to read back."""

    db: str | None
    pipeline: Path | None
    alerts: Path | None
    stream: Path | None
    inputs: tuple[str, ...]
    rules: Path | None
    for_s: float

    @contextmanager
    def lines(self) -> Iterator[AlertReader]:
        """The alerts in the file of ``--alerts``. Raises UsageError if it cannot be read."""
        if self.alerts is None or self.db is not None:
            raise UsageError("give --db or --alerts, not both")
        yield AlertLines(self.alerts)


class AlertLines:
    """Alerts as JSON lines, without pipelines, positions and rules."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        if not path.is_file():
            raise UsageError(f"there is no file {path}; give the alerts of a backtest or of a jsonl sink")

    def _alerts(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    alert = read_alert(line)
                    alert["alert_id"], alert["evidence"]
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise UsageError(f"{self.path}:{number}: found a line that is no alert") from None
                yield alert

    def alerts(self, which: AlertFilter, *, newest_first: bool = True) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """The corrections of an alert, in the order of their emission; nothing else is read."""
        return (alert for alert in self._alerts() if alert.get("corrects") == which.corrects)

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """The alerts whose id starts with ``prefix``, at most ``limit``."""
        low = prefix.lower()
        found = (StoredAlert(alert, "", None) for alert in self._alerts() if alert["alert_id"].startswith(low))
        return [each for each, _ in zip(found, range(limit), strict=False)]

    def count(self, which: AlertFilter) -> int:  # noqa: ARG002 - asked for all
        """How many there are."""
        return sum(1 for _ in self._alerts())

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:  # noqa: ARG002
        """Not in the file."""
        return None

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:  # noqa: ARG002
        """Not in the file."""
        return set()


def corrections(alert: Mapping[str, Any], source: AlertReader) -> list[dict[str, Any]]:
    """The corrections of ``alert`` in the order of their emission, each once; a correction has none."""
    if alert["corrects"] is not None:
        return []
    at_ms = parse_instant_ms(alert["event_time"])
    which = AlertFilter(alert["rule_id"], since_ms=at_ms, until_ms=at_ms + 1, corrects=alert["alert_id"])
    return list({each["alert_id"]: each for each in source.alerts(which, newest_first=False)}.values())


def read_origin(
    asked: OriginOptions, stored: StoredAlert, source: AlertReader, lake: LakeSource | None = None
) -> Seen | None:
    """The records of an alert; None, with a note on stderr, if their source is unknown."""
    try:
        origin = _origin(asked, stored, lake)
        if origin is None:
            note(
                "where its records came from is not known: add --pipeline FILE, or --stream FILE and --input with the "
                "files that have them"
            )
            return None
        alert = stored.alert
        body = _body(asked, origin, alert) or source.rule_body(stored.pipeline, alert["rule_id"], alert["rule_version"])
        return seen(stored, origin, body, partial(source.refused, stored.pipeline), asked.for_s)
    except CrosslineError as error:
        note(f"its records cannot be read: {error}")
        return None


def _origin(asked: OriginOptions, stored: StoredAlert, lake: LakeSource | None) -> RecordOrigin | None:
    from crossline.basics.streams.schema import load_streams
    from crossline.cli.backtest import inputs_by_stream
    from crossline.rule_registry.content import read_pipeline_in_place, read_text

    named = asked.db is not None or asked.alerts is not None
    path = asked.pipeline or (None if named or not DEFAULT_PIPELINE.is_file() else DEFAULT_PIPELINE)
    if asked.stream is not None:
        streams = load_streams(read_text(asked.stream), str(asked.stream))
        return RecordOrigin(streams, inputs_by_stream(list(asked.inputs), streams))
    if path is None:
        return None
    config = read_pipeline_in_place(path)
    if stored.pipeline not in ("", config.name):
        raise UsageError(f"the alert is of pipeline {stored.pipeline}, and {path} is of {config.name}: add --pipeline")
    inputs = inputs_by_stream(list(asked.inputs), config.streams)
    return RecordOrigin(config.streams, inputs, config, config.defaults.time_mode, lake)


def _body(asked: OriginOptions, origin: RecordOrigin, alert: Mapping[str, Any]) -> dict[str, Any] | None:
    """A version of a rule as the files have it that were named, or, of a file of alerts, those of the pipeline."""
    from crossline.rule_registry.rule_files import Known, read_rules

    figures = origin.config.figures if origin.config is not None else None
    known = Known(figures=Path(figures) if figures is not None else None)
    path = asked.rules
    if path is None and asked.alerts is not None and origin.config is not None:
        path = Path(origin.config.rules.path)
    if path is None:
        return None
    mark = (alert["rule_id"], alert["rule_version"])
    return next((rule.canonical() for rule in read_rules(path, known) if (rule.rule_id, rule.version) == mark), None)
