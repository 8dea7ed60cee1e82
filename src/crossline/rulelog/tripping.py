"""What the rule log says of rules that flood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from crossline.core.alerts.breaker import Trip
from crossline.core.basics.times import format_duration, format_instant
from crossline.core.rules.composition import way_of
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.history import History

BREAKER = "breaker"


def trip_events(
    history: History, trips: Iterable[Trip], highest_ingest_ms: Mapping[str, int], now_ms: int
) -> Iterator[RuleEvent]:
    """An event for each of ``trips`` that changes anything: of a version that is in force, and active.

    It holds from just after every record of the stream that was judged, whatever clock that goes by: a pipeline that is
    behind would else go on to flood until it has caught up.
    """
    for trip in trips:
        mine = history.rules.get(trip.rule_id)
        if mine is None or mine.in_force != trip.version or mine.status(trip.version) != "active":
            continue
        stream = way_of(mine.versions[trip.version].reading.judged[0], history.heads)[-1]
        last_ms = max(highest_ingest_ms.get(stream, trip.begins_ms), trip.begins_ms)
        yield RuleEvent(
            "tripped",
            now_ms,
            trip.rule_id,
            trip.version,
            "shadow",
            last_ms + 1,
            source=mine.source,
            text=_said(trip, last_ms + 1),
            who=BREAKER,
            count=trip.count,
        )


def _said(trip: Trip, from_ms: int) -> str:
    per, since, until = format_duration(trip.bound.per_ms), format_instant(trip.begins_ms), format_instant(from_ms)
    return (
        f"the breaker: {trip.rule_id} had {trip.count:,} alerts at records ingested in the {per} from {since} on, "
        f"where {trip.bound.alerts_max:,} are allowed. It judges as shadow records ingested from {until} on; its "
        "alerts at records before that are told. To have it active again, set its status to shadow, then to active, "
        "or publish another version"
    )
