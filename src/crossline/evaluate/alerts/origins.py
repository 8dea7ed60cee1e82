"""Where the record of a row came from: its place among all records, and its id where the row is a hit on it."""

from __future__ import annotations

from crossline.plan.compile import StreamPlan
from crossline.plan.stream_join import joined_log_of

# Of the record that was hit (ingest time, stream, log, sequence, offset, partition): what hits of several shards are
# put in order by, and where it stands. Where a stream is one log the time is 0, for then the log has the order.
Place = tuple[int, str, str, int, int, str]
_BETWEEN = "\x1f"


def id_of_hit(alert_id: str, record_id: str) -> str:
    """What a hit is known by among the hits that a rule reads: its alert, and the record that was hit."""
    return f"{alert_id}{_BETWEEN}{record_id}"


def rests_on(plan: StreamPlan, ids: list[str]) -> tuple[list[str], list[str] | None]:
    """The records of ``ids``, and the alerts of those that are hits; None where none ever is."""
    if plan.reports:
        return ids, None
    known = [record_and_alert_of(plan, each) for each in ids]
    alerts = [alert for _, alert in known if alert is not None]
    return [record for record, _ in known], alerts if alerts or plan.depth > 1 else None


def origin_of(plan: StreamPlan, log: str) -> tuple[str, str]:
    """The stream that a ``log`` of the plan is of in the end, and what it is called there."""
    return joined_log_of(log, plan.base) if plan.met is None else plan.met.origin(log)


def record_and_alert_of(plan: StreamPlan, row_id: str) -> tuple[str, str | None]:
    """The id of the record that a row is known by, or was hit; and the alert of the hit."""
    is_hit = plan.of_hits
    if plan.met is not None:
        row_id, is_hit = plan.met.own_id(row_id)
    if not is_hit:
        return row_id, None
    alert, record = row_id.split(_BETWEEN, 1)
    return record, alert
