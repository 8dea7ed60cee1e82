"""From the options of ``crossline alerts show`` to where the records of an alert came from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crossline.cli.alerts.records import Origin, Seen, seen
from crossline.cli.screen import note
from crossline.connectors.sqlite import AlertFilter, StoredAlert
from crossline.core.alerts.alertjson import read_alert
from crossline.core.basics.errors import CrosslineError, UsageError

DEFAULT_PIPELINE = Path("pipeline.yaml")


class Alerts(Protocol):
    """A store, or a file of alerts."""

    path: Path

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """Those whose id starts with ``prefix``."""
        ...

    def count(self, which: AlertFilter) -> int:
        """How many there are."""
        ...

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:
        """The body of a rule's version, where it is known."""
        ...

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Positions of records with these ids that do not count."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """The options; ``for_s``: how many seconds to read back."""

    db: Path | None
    pipeline: Path | None
    alerts: Path | None
    stream: Path | None
    inputs: tuple[str, ...]
    rules: Path | None
    for_s: float

    @contextmanager
    def lines(self) -> Iterator[Alerts]:
        """The alerts in the file of ``--alerts``. Raises UsageError where it cannot be read."""
        if self.alerts is None or self.db is not None:
            raise UsageError("give --db or --alerts, not both")
        yield AlertLines(self.alerts)


class AlertLines:
    """Alerts as JSON lines, which say nothing of pipelines, positions and rules."""

    def __init__(self, path: Path) -> None:
        self.path = path
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


def read_origin(asked: Asked, stored: StoredAlert, source: Alerts) -> Seen | None:
    """The records of an alert; None where it is not known where to look for them, which is told."""
    try:
        origin = _origin(asked, stored)
        if origin is None:
            note(
                "where its records came from is not known: add --pipeline FILE, or --stream FILE and --input with the "
                "files that have them"
            )
            return None
        alert = stored.alert
        body = _body(asked, origin, alert) or source.rule_body(stored.pipeline, alert["rule_id"], alert["rule_version"])
        refused = source.refused(stored.pipeline, alert["stream"], alert["evidence"]["record_ids"])
        return seen(stored, origin, body, refused, asked.for_s)
    except CrosslineError as error:
        note(f"its records cannot be read: {error}")
        return None


def _origin(asked: Asked, stored: StoredAlert) -> Origin | None:
    from crossline.cli.backtest import inputs_by_stream
    from crossline.core.streams.schema import load_streams
    from crossline.rulelog.content import read_pipeline_in_place, read_text

    named = asked.db is not None or asked.alerts is not None
    path = asked.pipeline or (None if named or not DEFAULT_PIPELINE.is_file() else DEFAULT_PIPELINE)
    if asked.stream is not None:
        streams = load_streams(read_text(asked.stream), str(asked.stream))
        return Origin(streams, inputs_by_stream(list(asked.inputs), streams))
    if path is None:
        return None
    config = read_pipeline_in_place(path)
    if stored.pipeline not in ("", config.name):
        raise UsageError(f"the alert is of pipeline {stored.pipeline}, and {path} is of {config.name}: add --pipeline")
    inputs = inputs_by_stream(list(asked.inputs), config.streams)
    return Origin(config.streams, inputs, config, config.defaults.time_mode)


def _body(asked: Asked, origin: Origin, alert: Mapping[str, Any]) -> dict[str, Any] | None:
    """A version of a rule as the files have it that were named, or, of a file of alerts, those of the pipeline."""
    from crossline.rulelog.reading import read_rules

    path = asked.rules
    if path is None and asked.alerts is not None and origin.config is not None:
        path = Path(origin.config.rules.path)
    if path is None:
        return None
    mark = (alert["rule_id"], alert["rule_version"])
    return next((rule.canonical() for rule in read_rules(path) if (rule.rule_id, rule.version) == mark), None)
