"""The decisions of a delivery: as columns, which sinks that take many read, and as values one by one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import orjson

from crossline.evaluate.alerts.alert_json import json_bytes

if TYPE_CHECKING:
    from crossline.evaluate.decisions.columns import DecisionColumns


class Decisions(Sequence[Mapping[str, Any]]):
    """Decisions in ``columns``; they are parsed at the first access to a value, and kept."""

    def __init__(self, columns: DecisionColumns) -> None:
        self.columns = columns
        self._parsed: list[Mapping[str, Any]] | None = None
        self._parsing = threading.Lock()  # several sinks read them, each from a thread of its own

    def __len__(self) -> int:
        return len(self.columns)

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
                known = self.columns.values
                self._parsed = [known.get(n) or orjson.loads(line) for n, line in enumerate(self.columns.lines)]
            return self._parsed


def columns_of(decisions: Sequence[Mapping[str, Any]]) -> DecisionColumns:
    """Decisions as columns: as they came, where they came so."""
    if isinstance(decisions, Decisions):
        return decisions.columns
    from crossline.evaluate.decisions.columns import DecisionColumns  # noqa: PLC0415 - numpy, which few commands load

    return DecisionColumns.of_values(decisions, [json_bytes(each) for each in decisions])


def json_lines(decisions: Sequence[Mapping[str, Any]]) -> Sequence[bytes]:
    """Each decision as JSON, without an end of line: as it came, where it came as a line."""
    if isinstance(decisions, Decisions):
        return decisions.columns.lines
    return [json_bytes(each) for each in decisions]


def ids_of(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The id of each."""
    if isinstance(decisions, Decisions):
        return [own.decode(errors="surrogatepass") for own in decisions.columns.ids]
    return [each["decision_id"] for each in decisions]


def counted(decisions: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    """How many decisions there are, by what was decided."""
    if isinstance(decisions, Decisions):
        return decisions.columns.counts()
    return Counter(each["decision"] for each in decisions)
