"""Problems in a file that a person wrote: where, what was found, what was expected, and the nearest valid name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from crossline.basics.errors import UsageError

Path = tuple[str | int, ...]

SNIPPET_WIDTH = 110

_VALUE_WIDTH = 60

_SHOWN_WIDTH = 1_000

_NAME_WIDTH = 100

PROBLEMS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before its place is known: ``path`` from the top of the rule (or file) to the value.

    ``hidden``: the line itself is not shown, as it may have what is sensitive.
    """

    path: Path
    found: str
    expected: str
    hint: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at its place. ``line`` counts from 1; ``path`` reads like ``[2].conditions[0].field``."""

    source: str
    line: int
    path: str
    found: str
    expected: str
    hint: str | None = None
    snippet: str = ""

    def render(self) -> str:
        """The problem in two to four lines."""
        lines = [f"{self.source}:{self.line}: {self.path}".rstrip(": ")]
        if self.snippet:
            lines.append(f"{self.line:>6} | {self.snippet}")
        lines.append(f"  found {self.found}; expected {self.expected}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class RefusedError(UsageError):
    """What was written is refused. ``problems`` has all that is wrong with it; the message is the rendered report.

    ``faults``: exceptions of the checks themselves, which are ours and belong into a log. ``rules``: the number of
    rules in the refused text, if they were counted.
    """

    def __init__(self, problems: Sequence[Problem], faults: Sequence[Exception] = ()) -> None:
        super().__init__(render(problems))
        self.problems = tuple(problems)
        self.faults = tuple(faults)
        self.rules: int | None = None

    def __reduce__(self) -> tuple[type[RefusedError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


def fault_finding(error: Exception) -> Finding:
    """What to say of a file or rule on which a check ended in ``error``."""
    found = f"what the check of it does not cope with ({type(error).__name__}: {error})"
    hint = "this is a fault of crossline, and the log has more: please report it with the file"
    return Finding((), found, "a rule that can be checked", hint)


def cut(text: str) -> str:
    """``text`` as far as a message takes it over from a file."""
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 1] + "…"


def render(problems: Sequence[Problem]) -> str:
    """``problems`` as text, a blank line between them, headed by their number where there are several.

    Of very many the first are reported: the text goes to a screen, and into the rule log.
    """
    parts = [problem.render() for problem in problems[:PROBLEMS_SHOWN]]
    if len(problems) > 1:
        sources = sorted({problem.source for problem in problems})
        parts.insert(0, f"{len(problems)} problems in {listed(sources)}")
    if len(problems) > PROBLEMS_SHOWN:
        parts.append(f"and {len(problems) - PROBLEMS_SHOWN:,} more")
    return "\n\n".join(parts)


def cut_inside(text: str) -> str:
    """``text``, cut in the middle; its end shows the kind of field."""
    half = _SHOWN_WIDTH // 2
    return text if len(text) <= _SHOWN_WIDTH else f"{text[:half]}…{text[-half:]}"


def path_text(path: Path) -> str:
    """``("steps", 0, "name")`` as ``steps[0].name``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def shown(value: Any) -> str:
    """``value`` as JSON for a message, cut short."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + "…"


# What other systems call aggregates.
_OTHER_NAMES = {
    **dict.fromkeys(("average", "mean"), "avg"),
    **dict.fromkeys(("std", "stdev", "stddev_samp", "standard_deviation"), "stddev"),
    **dict.fromkeys(("distinct", "nunique", "count_distinct", "approx_count_distinct"), "distinct_count"),
    **dict.fromkeys(("percentile", "approx_percentile"), "quantile"),
    "total": "sum",
}


def nearest(name: object, names: Iterable[str]) -> str | None:
    """``did you mean …?`` for the closest of ``names``; None where nothing is close."""
    if not isinstance(name, str | int | float) or len(str(name)) > _NAME_WIDTH:
        return None
    known = {known.lower(): known for known in names}
    if (other := _OTHER_NAMES.get(str(name).lower())) in known:
        return f"did you mean {known[other]}?"
    close = difflib.get_close_matches(str(name).lower(), list(known), n=1, cutoff=0.6)
    return f"did you mean {known[close[0]]}?" if close else None


def one_of(names: Iterable[str], limit: int = 12) -> str:
    """``one of a, b, c``, cut after ``limit`` names."""
    known = list(names)
    return ("one of " if len(known) > 1 else "") + listed(known, limit)


def listed(names: Sequence[str], limit: int = 12) -> str:
    """``a, b, c``, cut after ``limit`` names."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def crop(lines: Sequence[str], line: int, column: int) -> str:
    """Number ``line`` of ``lines``, cut to a readable width around ``column``."""
    whole = lines[line - 1].rstrip() if 0 < line <= len(lines) else ""
    if len(whole) <= SNIPPET_WIDTH:
        return whole
    start = max(0, min(column - 21, len(whole) - SNIPPET_WIDTH))
    end = start + SNIPPET_WIDTH
    return ("…" if start else "") + whole[start:end] + ("…" if end < len(whole) else "")
