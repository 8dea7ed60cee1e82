"""What is wrong with a record, as an error of a problem (RFC 9457): where, what was found, what was expected."""

from __future__ import annotations

from crossline.ingest.decode.reasons import RecordFault


def error_of(fault: RecordFault) -> dict[str, str | None]:
    """The error that ``fault`` is. ``pointer``: into the record; empty where no field is to blame.

    >>> error_of(RecordFault("wrong_type", "true", "number", "place.lat"))
    {'pointer': '/place/lat', 'found': 'true', 'expected': 'number', 'hint': None}
    """
    steps = (step.replace("~", "~0").replace("/", "~1") for step in fault.field.split("."))
    return {
        "pointer": f"/{'/'.join(steps)}" if fault.field else "",
        "found": fault.found,
        "expected": fault.expected or "a record of JSON that fits the stream",
        "hint": None,
    }
