"""Which hours of the lake a rule has not judged, and which records the lake does not have.

A rule judges the records whose log reached an instant from its publication on, and none while it is paused or retired.
The rule log has these instants. Hours that a fill has judged afterwards (``fill``) are no gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay_input import LakeInput
from crossline.lake.tables.record_rows import milliseconds
from crossline.lake.tables.row_filters import between
from crossline.lake.tables.table_layouts import FILLS, MISSING, REACHED, records_table
from crossline.rules.ruleset import RuleSet

Span = tuple[int, int]  # epoch milliseconds of the ingest clock, the end exclusive


@dataclass(frozen=True, slots=True)
class RuleGap:
    """Records of a stream that no version of a rule has judged.

    Attributes:
        rule_id: The rule.
        version: Its live version.
        stream: The stream.
        from_ms: Ingest time at which the gap begins, in epoch milliseconds.
        to_ms: Where it ends, exclusive.
        records: How many records of the lake are in it.
    """

    rule_id: str
    version: int
    stream: str
    from_ms: int
    to_ms: int
    records: int


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """Positions ``first`` to ``end`` (exclusive) of a log, which a topic had deleted before the lake had them."""

    stream: str
    log: str
    first: int
    end: int


def rule_gaps(reader: LakeReader, rules: RuleSet) -> list[RuleGap]:
    """The gaps of the live rules in the records of the lake, by rule and time.

    Args:
        reader: The lake.
        rules: All versions with their intervals, by the rule log.
    """
    spans = {stream: span for stream in reader.config.streams if (span := _span(reader, stream)) is not None}
    filled = fills(reader)
    found: list[RuleGap] = []
    for (rule_id, stream), (version, judged) in sorted(_judged(rules, spans).items()):
        for from_ms, to_ms in without(spans[stream], [*judged, *filled.get((rule_id, version, stream), ())]):
            records = reader.count(records_table(stream), [between(REACHED, from_ms, to_ms - 1)])
            if records:
                found.append(RuleGap(rule_id, version, stream, from_ms, to_ms, records))
    return found


def missing_records(reader: LakeReader) -> list[MissingRecords]:
    """What the lake does not have, in the order in which it was noted."""
    rows = _rows(reader, MISSING.name)
    names = ("stream", "log", "first", "end")
    return [] if rows is None else [MissingRecords(*(row[name] for name in names)) for row in rows.to_pylist()]


def fills(reader: LakeReader) -> dict[tuple[str, int, str], list[Span]]:
    """The spans that a rule version has judged afterwards, by rule, version and stream."""
    rows = _rows(reader, FILLS.name)
    found: dict[tuple[str, int, str], list[Span]] = {}
    if rows is None:
        return found
    edges = zip(milliseconds(rows.column("from")).to_pylist(), milliseconds(rows.column("to")).to_pylist(), strict=True)
    for row, span in zip(rows.select(["rule_id", "rule_version", "stream"]).to_pylist(), edges, strict=True):
        found.setdefault((row["rule_id"], row["rule_version"], row["stream"]), []).append(span)
    return found


def without(whole: Span, parts: Iterable[Span]) -> list[Span]:
    """``whole`` without ``parts``, which may overlap.

    >>> without((0, 10), [(2, 4), (3, 5), (9, 20)])
    [(0, 2), (5, 9)]
    """
    found, at = [], whole[0]
    if at >= whole[1]:
        return []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if start > at:
            found.append((at, min(start, whole[1])))
        at = max(at, end)
        if at >= whole[1]:
            return found
    return [*found, (at, whole[1])]


def _judged(rules: RuleSet, spans: Mapping[str, Span]) -> dict[tuple[str, str], tuple[int, list[Span]]]:
    """By live rule and its stream: the live version, and the spans that versions of the rule have judged."""
    live = {each.rule.rule_id: each.rule for each in rules.versions if each.endless}
    found: dict[tuple[str, str], tuple[int, list[Span]]] = {}
    for each in rules.versions:
        rule, stream = live.get(each.rule.rule_id), rules.base(each.rule)
        if rule is None or stream != rules.base(rule) or stream not in spans:
            continue
        _, judged = found.setdefault((rule.rule_id, stream), (rule.version, []))
        judged.append((each.effective_from_ms, each.effective_until_ms))
    return found


def _rows(reader: LakeReader, name: str) -> pa.Table | None:
    """The rows of a table; None: a lake of an earlier version does not have it."""
    return reader.rows(name) if reader.has(name) else None


def _span(reader: LakeReader, stream: str) -> Span | None:
    """The instants that the records of a stream reached; None: there are none."""
    edges = LakeInput(reader, reader.config.streams, {stream: ()}).edges()
    return (edges[0], edges[-1]) if edges else None
