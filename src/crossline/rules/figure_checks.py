"""What is wrong with the key, the field or the resolution of a figure: of a rule that has one, or of one by itself.

Most rules need these checks, and not the model of a figure (``figure``), which takes long to make.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from crossline.basics.conditions.tree import tokens_text
from crossline.basics.streams.inputs import SideInput, several_of
from crossline.basics.streams.schema import StreamSpec, check_field
from crossline.basics.texts.problems import Finding, Path
from crossline.basics.times import format_duration
from crossline.programs.aggregate import Aggregate
from crossline.programs.kinds import ColumnKind
from crossline.programs.registry import declared
from crossline.rules.sentence import noun

LEAST_RESOLUTION_MS = 1000
MOST_PANES = 1_000_000  # of one window


def is_shared(data: Any) -> bool:
    """Whether what stands in a file is meant to be a shared figure, and not a rule."""
    return isinstance(data, dict) and ("kind" in data or "figure_id" in data) and "rule_id" not in data


def limit_findings(aggregate: Aggregate, *, panes: bool) -> list[Finding]:
    """What is wrong with the aggregate in a window of ``panes``, or of records."""
    if panes and aggregate.pane is None:
        found = f"a resolution beside {aggregate.name}"
        return [Finding(("resolution",), found, f"no resolution: {aggregate.limits}")]
    if not panes and aggregate.window is None:
        return [Finding(("resolution",), "nothing", f"a resolution such as 1h: {aggregate.limits}")]
    return []


def resolution_findings(resolution_ms: int | None, window_ms: int | None) -> list[Finding]:
    """What is wrong with a resolution beside a window."""
    if resolution_ms is None:
        return []
    at, found = ("resolution",), format_duration(resolution_ms)
    if resolution_ms < LEAST_RESOLUTION_MS:
        return [Finding(at, found, f"at least {format_duration(LEAST_RESOLUTION_MS)}")]
    if window_ms and resolution_ms > window_ms:
        return [Finding(at, found, f"at most the window, which is {format_duration(window_ms)}")]
    if window_ms and window_ms // resolution_ms > MOST_PANES:
        least = format_duration(-(-window_ms // MOST_PANES // 1000) * 1000)
        return [Finding(at, found, f"at least {least}: a window of {format_duration(window_ms)} has a million panes")]
    return []


def side_input_findings(
    side_input: SideInput, keys: Collection[str], spec: StreamSpec, theirs: StreamSpec
) -> list[Finding]:
    """What is wrong with the fields of a key where ``side_input.source`` has them; ``keys``: those of ``spec``."""
    findings: list[Finding] = []
    for here in keys:
        there = side_input.there(here)
        at: Path = ("group_by", here) if side_input.keys else ("group_by",)
        unknown = check_field(there, theirs.columns, side_input.source, at)
        mine, other = spec.columns[here], theirs.columns.get(there)
        if unknown is not None:
            hits = several_of(side_input.source) is not None
            where = "there" if hits else f"in {side_input.source}"
            hint = unknown.hint if side_input.keys else f"write {{{here}: its name {where}}}"
            expected = f"a field of the {noun(side_input.source)}, of type {mine.kind}" if hits else unknown.expected
            findings.append(replace(unknown, expected=expected, hint=hint))
        elif other is not None and (other.is_list or other.kind != mine.kind):
            findings.append(
                Finding(at, f"{there} of {side_input.source}, of type {other}", f"type {mine.kind}, as {here} has")
            )
        elif other is not None and several_of(side_input.source) is None and other.sensitive != mine.sensitive:
            found = f"{there} of {side_input.source}, which has {tokens_text(other)}"
            findings.append(Finding(at, found, f"{tokens_text(mine)}, as {here} has"))
    return findings


def group_findings(fields: Collection[str], name: str, spec: StreamSpec) -> list[Finding]:
    """What is wrong with the fields of a key on the stream ``name``."""
    findings = []
    for number, field in enumerate(fields):
        at: Path = ("group_by", number) if len(fields) > 1 else ("group_by",)
        unknown = check_field(field, spec.columns, name, at)
        if unknown is not None:
            findings.append(unknown)
        elif spec.columns[field].is_list:
            findings.append(Finding(at, f"{field}, of type {spec.columns[field]}", "a field with one value"))
    return findings


def field_findings(aggregate: str | None, field: str, name: str, spec: StreamSpec, path: Path) -> list[Finding]:
    """Why ``aggregate`` cannot be computed of ``field`` of the stream ``name``."""
    unknown = check_field(field, spec.columns, name, path)
    if unknown is not None:
        return [unknown]
    column = spec.columns[field]
    if aggregate is None or declared(aggregate).of_records or declared(aggregate).fits(column):
        return []
    wanted = "one value" if declared(aggregate).takes == "values" else "type integer or number"
    expected = f"a field of {wanted}, for {aggregate}"
    hint = "for how many different ones there are, use distinct_count" if column.kind == "string" else None
    return [Finding(path, f"{field}, of type {column}", expected, None if column.is_list else hint)]


def column_kind(aggregate: str, field: str | None, spec: StreamSpec) -> ColumnKind | None:
    """How the field is kept for the aggregate; None: it is not."""
    of = declared(aggregate)
    return None if of.of_records or field is None else of.column_kind(spec.columns[field].kind)
