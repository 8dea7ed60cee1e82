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
        value: The figure as the engine judged it there; None where it is missing.
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
        ingest_ms: When it came, epoch ms.
        mark: What it is to the alert: ``counted``; ``before``, counted before, of distinct counts; ``outside`` of the
            window; ``filtered`` out by a condition; ``crossing``; ``after`` it.
        note: The same in words, with what made it so.
        amount: Of the field that holds money; None: there is none.
        value: The figure at it; None where the rule did not judge it.
        lane: Of a sequence the steps that it takes, of a correlation 0 for its stream and 1 for the context's.
        fields: What the rule names of it.
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
    """A line of its own for some records: a step of a sequence, a stream of a correlation.

    Attributes:
        name: What it is called.
        found: How many records of the alert stand on it.
        wanted: How many the rule asks for; None: it asks for none.
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
    """From one place to the next.

    Attributes:
        start: Where the key was before.
        end: Where it was at the crossing record.
        distance_km: Great circle between them.
        elapsed_ms: Time between them.
        speed_kmh: As the rule has it; None where no time passed.
        limit_kmh: What it is held against.
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
        shape: Which drawing it is for; ``none`` where the rule looks at the record alone.
        figure: The name of the figure that ``steps`` are of.
        unit: Of the figure and its threshold.
        operator: How it is held against the threshold.
        threshold: What the figure is held against; None: nothing that is one number.
        from_ms: The earliest moment shown, at least a fifth of the window before it, epoch ms.
        to_ms: The latest moment shown.
        window_start_ms: The window's far edge; None where there is no window.
        window_end_ms: Its near edge.
        bounds: Which of its ends belong to it.
        crossing: The record at which it fired.
        at_ms: When that happened.
        due_ms: Of a sequence, until when its last record could have come; of an absence, what it waited for.
        steps: The figure at every record that was judged.
        records: All records shown, in the order in which they came.
        lanes: Of a sequence its steps, of a correlation its streams.
        travel: Of ``geo_velocity``.
        figures: Every figure against its threshold.
        money: The field of ``amount``; None: none is known.
        missing: What could not be read, as sentences.
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


def timeline_of(told: Mapping[str, Any]) -> Timeline:
    """A timeline out of what ``to_json`` wrote; other fields beside it are left out.

    Raises pydantic's ValidationError where it is none.
    """
    names = Timeline.__dataclass_fields__
    mine = {name: each for name, each in _epochs(dict(told)).items() if name in names}
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
