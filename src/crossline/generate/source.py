"""The generator as a source: which records there are, by number, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.generate.cards import CardWorkload
from crossline.generate.tx import TxWorkload


class Workload(Protocol):
    """Records by number; any range equals the same range of any other cut."""

    @property
    def rate_per_s(self) -> int:
        """Records per second of event time."""

    def records(self, start: int, count: int) -> pa.Table:
        """Records [start, start + count) as columns."""

    def lines(self, start: int, count: int) -> bytes:
        """Records [start, start + count) as JSON lines."""


WORKLOADS: dict[str, type[TxWorkload | CardWorkload]] = {"tx": TxWorkload, "cards": CardWorkload}


@dataclass(frozen=True, slots=True)
class Generator:
    """``records`` records of a workload, or without end where None; a plain value that travels to workers.

    ``pace_per_s``: how many become available per second; None makes all of them available at once, of an endless source
    those that are asked for.
    """

    workload: TxWorkload | CardWorkload
    records: int | None
    pace_per_s: int | None = None

    def available(self, elapsed_ms: int) -> int | None:
        """How many records there are ``elapsed_ms`` after the start; None where there is no end."""
        if self.pace_per_s is None:
            return self.records
        come = elapsed_ms * self.pace_per_s // 1_000
        return come if self.records is None else min(come, self.records)

    def lines(self, start: int, count: int) -> bytes:
        """Records [start, start + count) as JSON lines; fewer where the source ends before."""
        return self.workload.lines(start, count if self.records is None else max(0, min(count, self.records - start)))


def make_workload(name: str, parameters: Mapping[str, Any]) -> TxWorkload | CardWorkload:
    """The workload of that name; UsageError names the known ones, and the known parameters."""
    if name not in WORKLOADS:
        raise UsageError(f"no workload is named {name!r}; known: {', '.join(sorted(WORKLOADS))}")
    kind = WORKLOADS[name]
    known = {field.name: field.type for field in fields(kind) if field.type in {"int", "bool"}}
    for parameter, value in parameters.items():
        if parameter not in known:
            raise UsageError(f"workload {name} has no parameter {parameter!r}; known: {', '.join(known)}")
        if isinstance(value, bool) != (known[parameter] == "bool") or not isinstance(value, int):
            raise UsageError(f"workload {name}: {parameter} is {value!r}; expected {known[parameter]}")
    return kind(**parameters)


def read_source(settings: Mapping[str, Any]) -> Generator:
    """A source from pipeline.yaml: ``workload``, ``records``, ``pace_per_s``, and parameters of the workload."""
    rest = {
        name: value for name, value in settings.items() if name not in {"kind", "workload", "records", "pace_per_s"}
    }
    for name, least in (("records", 0), ("pace_per_s", 1)):
        value = settings.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise UsageError(f"generator source: {name} is {value!r}; expected an integer of {least} or more")
    workload = make_workload(str(settings.get("workload")), rest)
    return Generator(workload, settings.get("records"), settings.get("pace_per_s"))
