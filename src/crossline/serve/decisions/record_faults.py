"""What is wrong with a record, as an error of a problem (RFC 9457): where, what was found, what was expected."""

from __future__ import annotations

import re

from crossline.serve.decisions.records import RefusedRecord

# As the decoder writes its findings. What was found may itself have a comma in it, the expected does not.
_FOUND = re.compile(r"field (.+?): found (.*)(?:, expected (.+)|, beyond (.+))", re.DOTALL)
_LACKING = re.compile(r"field (.+?) is (missing or null|empty), expected (.+)", re.DOTALL)
_WHOLE = re.compile(r"(?:.*: )?found (.*)[,;] expected (.+)", re.DOTALL)


def fault_of(refused: RefusedRecord) -> dict[str, str | None]:
    """The error of ``refused``. ``pointer``: into the record; empty where no field is to blame.

    >>> fault_of(RefusedRecord("wrong_type", "field place.lat: found true, expected number"))
    {'pointer': '/place/lat', 'found': 'true', 'expected': 'number', 'hint': None}
    """
    if match := _FOUND.fullmatch(refused.detail):
        name, found, expected, bound = match.groups()
        return _error(name, found, expected or f"a number within {bound}")
    if match := _LACKING.fullmatch(refused.detail):
        name, lack, expected = match.groups()
        return _error(name, "nothing" if lack == "missing or null" else '""', expected)
    if match := _WHOLE.fullmatch(refused.detail):
        return _error("", *match.groups())
    return _error("", refused.detail, "a record of JSON that fits the stream")


def _error(name: str, found: str, expected: str) -> dict[str, str | None]:
    steps = (step.replace("~", "~0").replace("/", "~1") for step in name.split("."))
    return {"pointer": f"/{'/'.join(steps)}" if name else "", "found": found, "expected": expected, "hint": None}
