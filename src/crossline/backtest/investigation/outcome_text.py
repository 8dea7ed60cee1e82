"""The outcome of a change, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossline.backtest.alert_figures import read_figures
from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.record_changes import Variant
from crossline.backtest.investigation.variant_runner import VariantRunner
from crossline.backtest.sample_view import figures_text, shown_value, worded_rule
from crossline.basics.times import format_duration, rounded_duration

_EXACT_MS = 1_000


def outcome_of_change(runner: VariantRunner, variant: Variant, present_hits: Mapping[str, Any]) -> str:
    """``senders 5, received 1,640; fires 18 s later at t0199352``: the figures at the record, and the next alert.

    Args:
        runner: The rule version, and what judges.
        variant: The changed rule or records.
        present_hits: The alert at the record under the present rule.
    """
    if runner.program().verdict is None:
        return "does not fire"
    batch = runner.batch(variant.records)
    probe = runner.probe(batch, variant.rule).get(runner.record_id)
    place, record = _place(variant.records, runner.record_id)
    parts = [f"{runner.record_id} no longer counts" if probe is None else figures_at(runner, variant, probe)]
    if probe is not None:
        gone = [each for each in _ids(present_hits) if each not in _ids(probe)]
        came = [each for each in variant.records if each.record_id in gone]
        if gone and came and variant.rule is not None:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            parts.append(f"{gone[0]}{more} no longer {'counts' if len(gone) == 1 else 'count'}")
    return "; ".join([*parts, next_alert_text(runner, variant, batch, place, record)])


def figures_at(runner: VariantRunner, variant: Variant, probe: Mapping[str, Any]) -> str:
    """The figures of a probe: ``count 5``, ``senders 5, received 1,640``."""
    rule = variant.rule or runner.rule
    program = runner.program(rule)
    if program.formula is not None:
        words, read = worded_rule(rule), read_figures(program.formula, probe)
        value = probe["value"]
        return words.in_words(value, read) if words is not None else figures_text(rule, read)
    if program.sequence is not None:
        return f"{probe['evidence']['count']} of {len(program.sequence.names)} records"
    name = "value" if program.comparison is None else getattr(rule, "aggregation_type", "value")
    return f"{name} {shown_value(probe['value'])}"


def next_alert_text(runner: VariantRunner, variant: Variant, batch: Any, place: int, record: KeyRecord) -> str:
    """When the rule fires next, among the known records."""
    alerts = runner.alerts(batch, variant.rule)
    for each in variant.records[place + 1 :]:
        if each.record_id in alerts:
            return f"fires {duration_text(each.event_ms - record.event_ms)} later at {each.record_id}"
    after = len(variant.records) - place - 1
    if after == 0:
        return "no record follows it"
    return f"does not fire at the {after} records after it" if after > 1 else "does not fire at the record after it"


def duration_text(ms: int) -> str:
    """A time between two records; below a second to the millisecond."""
    return format_duration(ms) if abs(ms) < _EXACT_MS else rounded_duration(ms)


def left_out_text(turning: Sequence[KeyRecord], among: int) -> str:
    """Which record turns the verdict when it is left out."""
    if len(turning) == 1:
        return f"Without {turning[0].record_id}"
    return f"Without any one of {len(turning)} of the {among} records before it, such as {turning[0].record_id}"


def _place(records: Sequence[KeyRecord], record_id: str) -> tuple[int, KeyRecord]:
    return next((number, each) for number, each in enumerate(records) if each.record_id == record_id)


def _ids(alert: Mapping[str, Any]) -> list[str]:
    return list(alert["evidence"]["record_ids"])
