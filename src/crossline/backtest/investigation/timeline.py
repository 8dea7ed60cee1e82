"""The window of an alert as values: what a drawing, a table or a report needs, and nothing of how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from crossline.backtest.investigation.figure_bars import FigureBar, Unit
from crossline.basics.times import format_instant, parse_instant_ms

Shape = Literal["window", "sequence", "travel", "correlation", "absence", "none"]
Mark = Literal["counted", "before", "outside", "filtered", "crossing", "after"]
# Fields that hold an instant in epoch ms: in JSON they are texts, without ``_ms``.
_INSTANTS = {"at_ms", "event_ms", "ingest_ms", "from_ms", "to_ms", "window_start_ms", "window_end_ms", "due_ms"}


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """The figure from one record on, until the next.

    Attributes:
        at_ms: Event time of the record, epoch ms.
        value: The figure as the engine judged it there; None if it is missing.
        record_id: The record.
    """

    at_ms: int
    value: float | None
    record_id: str


@dataclass(frozen=True, slots=True)
class RecordMark:
    """A record of the timeline.

    Attributes:
        record_id: Its id.
        stream: Its stream.
        event_ms: When it happened, epoch ms.
        ingest_ms: Ingest time, epoch ms.
        mark: Its part in the alert: ``counted``; ``before``, a value that a distinct count has already; ``outside`` of
            the window; ``filtered`` out by a condition; ``crossing``; ``after`` it.
        note: The mark as text, with its reason.
        amount: The amount of money; None: unknown.
        value: The figure at the record; None if the rule did not judge it.
        lane: Of a sequence, its step; of a correlation, 0 for the rule's stream and 1 for the context's.
        fields: The fields that the rule names.
    """

    record_id: str
    stream: str
    event_ms: int
    ingest_ms: int
    mark: Mark
    note: str
    amount: float | None
    value: float | None
    lane: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of the drawing: a step of a sequence, or a stream of a correlation.

    Attributes:
        name: Its name.
        found: The number of the alert's records on it.
        wanted: The number that the rule requires; None: none.
    """

    name: str
    found: int
    wanted: int | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """Where a key was: degrees, and when (epoch ms), by which record (None: of the one before it nothing is known)."""

    latitude: float
    longitude: float
    at_ms: int
    record_id: str | None


@dataclass(frozen=True, slots=True)
class Travel:
    """The way from one location to the next.

    Attributes:
        start: The location before.
        end: The location at the crossing record.
        distance_km: The great-circle distance.
        elapsed_ms: The time between them.
        speed_kmh: The speed that the rule computes; None if no time passed.
        limit_kmh: The threshold of the speed.
    """

    start: Location
    end: Location
    distance_km: float
    elapsed_ms: int
    speed_kmh: float | None
    limit_kmh: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """One alert in its window.

    Attributes:
        shape: The kind of drawing; ``none`` for a rule of single records.
        figure: The name of the figure in ``steps``.
        unit: The unit of the figure and its threshold.
        operator: The operator between figure and threshold.
        threshold: The threshold; None: it is no single number.
        from_ms: The earliest moment shown, at least a fifth of the window before it, epoch ms.
        to_ms: The latest moment shown.
        window_start_ms: The window's far edge; None if there is no window.
        window_end_ms: Its near edge.
        bounds: Which of its ends belong to it.
        crossing: The record at which the rule fired.
        at_ms: Its event time, epoch ms.
        due_ms: Of a sequence, the deadline of its last record; of an absence, that of the expected record.
        steps: The figure at every judged record.
        records: All records shown, in the order of arrival.
        lanes: Of a sequence its steps, of a correlation its streams.
        travel: Of ``geo_velocity``.
        figures: Every figure against its threshold.
        money: The field of ``amount``; None: unknown.
        missing: The parts that could not be read, one sentence each.
    """

    shape: Shape
    figure: str
    unit: Unit
    operator: str | None
    threshold: float | None
    from_ms: int
    to_ms: int
    window_start_ms: int | None
    window_end_ms: int | None
    bounds: str
    crossing: str
    at_ms: int
    due_ms: int | None
    steps: tuple[FigurePoint, ...]
    records: tuple[RecordMark, ...]
    lanes: tuple[Lane, ...] = ()
    travel: Travel | None = None
    figures: tuple[FigureBar, ...] = ()
    money: str | None = None
    missing: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """As JSON values; instants are texts."""
        whole = _instants(asdict(self))
        if not isinstance(whole, dict):
            raise TypeError("a timeline is an object")
        return whole


def timeline_of(body: Mapping[str, Any]) -> Timeline:
    """Read a timeline that ``to_json`` wrote; unknown fields are ignored.

    Raises pydantic's ValidationError if it is no timeline.
    """
    names = Timeline.__dataclass_fields__
    mine = {name: each for name, each in _epochs(dict(body)).items() if name in names}
    return TypeAdapter(Timeline).validate_python(mine)


def _epochs(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            f"{name}_ms" if f"{name}_ms" in _INSTANTS else name: (
                parse_instant_ms(each) if f"{name}_ms" in _INSTANTS and isinstance(each, str) else _kept(name, each)
            )
            for name, each in value.items()
        }
    return [_epochs(each) for each in value] if isinstance(value, list) else value


def _kept(name: str, value: Any) -> Any:
    """Fields of a record are whatever they are."""
    return value if name == "fields" else _epochs(value)


def _instants(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name.removesuffix("_ms") if name in _INSTANTS else name: (
                format_instant(each)
                if name in _INSTANTS and each is not None
                else each
                if name == "fields"
                else _instants(each)
            )
            for name, each in value.items()
        }
    return [_instants(each) for each in value] if isinstance(value, list | tuple) else value
