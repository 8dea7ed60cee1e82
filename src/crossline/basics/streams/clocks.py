"""Other times of a record than its event time, which rules may name as their clock (``timestamp_field``).

Rules on such a clock are judged in a plan of its own, whose event time it is: a record comes to it a second time, with
that time in the place of its event time, so that windows, lateness, order and what is kept follow it as they do event
time elsewhere. Ingest time is what it was.
"""

from __future__ import annotations

from crossline.basics.streams.inputs import JoinedSpec, Reading, rule_of, spec_like
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.texts.problems import Finding, nearest, one_of, shown

# The record's event time, in epoch ms, among its fields; no stream has a field of that name.
EVENT = "\x1devent_ms"
_PATH = ("timestamp_field",)


def clock_of(named: str | None, spec: StreamSpec) -> str | None:
    """The clock of ``spec`` that a rule names, by its name or by its field; None: the stream's event time."""
    if named is None or named in spec.clocks:
        return named
    return next((clock for clock, time in spec.clocks.items() if time.field == named != spec.event_time.field), None)


def plan_name(stream: str, clock: str) -> str:
    """What the plan of a clock is called: no stream has such a name."""
    return f"{stream}@{clock}"


def clock_spec(spec: StreamSpec) -> JoinedSpec:
    """What records look like on another clock."""
    return spec_like(spec, {**spec.columns, EVENT: FieldSpec("integer")}, {})


def clock_findings(
    named: str | None, time_mode: str | None, reading: Reading, name: str, spec: StreamSpec
) -> list[Finding]:
    """Why a rule cannot name ``named`` as its clock."""
    if named is None or named == spec.event_time.field:
        return []
    clock = clock_of(named, spec)
    if clock is None:
        clocks = f", or {one_of(list(spec.clocks))}, a clock of it" if spec.clocks else ""
        expected = f"{spec.event_time.field}, the event time of stream {name}{clocks}"
        hint = nearest(named, [*spec.clocks, spec.event_time.field])
        if hint is None and named in spec.columns:
            hint = f"declare it in the stream file: clocks: {{{named}: {{field: {named}, unit: …}}}}"
        return [Finding(_PATH, shown(named), expected, hint)]
    event = f"{spec.event_time.field}, the event time"
    if rule_of(reading.judged[0]) is not None:
        return [Finding(_PATH, f"{named} of hits", f"{event}: hits have the event time and the ingest time alone")]
    if not reading.single:
        expected = f"{event}: records of several streams or keys are joined by it"
        return [Finding(_PATH, f"{named} of a rule of several", expected)]
    if time_mode == "processing_time":
        return [Finding(_PATH, f"{named} beside time_mode: processing_time", "one clock: leave out one of the two")]
    return []
