"""Regular expressions: RE2 decides what is one, and what it finds, in time that grows with the text and no faster."""

from __future__ import annotations


def why_not_regex(pattern: str) -> str | None:
    """What RE2 has against ``pattern``; None where it takes it."""
    import pyarrow as pa  # noqa: PLC0415 - takes a third of a second to load
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, ValueError) as error:
        return str(error).removeprefix("Invalid regular expression: ").removesuffix(f": {pattern}")
    return None


def finds(pattern: str, text: str) -> bool:
    """Whether ``pattern`` is found in ``text``.

    By RE2 here too: Python's engine takes a lifetime for ``^(a+)+$`` over forty letters, and rules come from anybody.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    return bool(pc.match_substring_regex(pa.scalar(text), pattern).as_py())
