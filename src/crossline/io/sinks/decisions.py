"""The decisions of a delivery: values one by one, and lines of JSON as they came."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import orjson

from crossline.evaluate.alerts.alert_json import json_bytes


class Decisions(Sequence[Mapping[str, Any]]):
    """Decisions, each as a line of JSON without its end; all are parsed at the first access, and kept.

    ``words``: what each of them decided; None: not known without parsing.
    """

    def __init__(self, lines: Sequence[bytes], words: Sequence[str] | None = None) -> None:
        self._lines = lines
        self._words = words
        self._parsed: list[Mapping[str, Any]] | None = None
        self._parsing = threading.Lock()  # several sinks read them, each from a thread of its own

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        return self._values()[index]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._values())

    def _values(self) -> list[Mapping[str, Any]]:
        with self._parsing:
            if self._parsed is None:
                self._parsed = [orjson.loads(line) for line in self._lines]
            return self._parsed

    def lines(self) -> Sequence[bytes]:
        """Each as JSON, without an end of line."""
        return self._lines

    def counts(self) -> Mapping[str, int]:
        """How many there are, by what was decided."""
        return Counter(each["decision"] for each in self._values()) if self._words is None else Counter(self._words)


def json_lines(decisions: Sequence[Mapping[str, Any]]) -> Sequence[bytes]:
    """Each decision as JSON, without an end of line: as it came, where it came as a line."""
    return decisions.lines() if isinstance(decisions, Decisions) else [json_bytes(each) for each in decisions]


def counted(decisions: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    """How many decisions there are, by what was decided."""
    return decisions.counts() if isinstance(decisions, Decisions) else Counter(each["decision"] for each in decisions)
