"""Alerts: their ids, their fields in a stable order, and their schema as a table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from crossline.basics.fields import canonical_key
from crossline.basics.times import format_duration, format_instant, instant_text
from crossline.basics.uuids import seeded, uuid5_text
from crossline.evaluate.alerts.alert_json import json_bytes, json_value
from crossline.evaluate.alerts.hits import Hit, WindowRecord
from crossline.evaluate.alerts.record import record_json
from crossline.plan.compile import StreamPlan
from crossline.programs.predicate import Comparison
from crossline.programs.program import Evidence, Figure, Program
from crossline.rules.base import Rule
from crossline.rules.ruleset import RuleVersion
from crossline.rules.sentence import Sentence
from crossline.state.batch import FigureRead

SCHEMA_VERSION = 1
EVIDENCE_IDS_MAX = 50
# A promise to other programs: with another namespace every alert would have another id.
NAMESPACE = uuid.UUID("7d0f6f8e-8c1c-5e0b-9a53-2f1b2c3d4e5f")

_SEEDED = seeded(NAMESPACE)


def alert_id_of(hit: Hit) -> str:
    """The id of its alert."""
    rule = hit.version.rule
    return alert_id(rule.rule_id, rule.version, canonical_key(hit.key), hit.record_id)


def alert_id(rule_id: str, version: int, key_json: str, record_id: str) -> str:
    """The UUIDv5 of what caused the alert: the same in every redelivery, replay and backtest."""
    return uuid5_text(_SEEDED, f"{rule_id}\x1f{version}\x1f{key_json}\x1f{record_id}")


def correction_id(corrected: str, record_id: str) -> str:
    """The UUIDv5 of what is corrected, by its alert's id, and of the record that changed it."""
    return uuid5_text(_SEEDED, f"correction\x1f{corrected}\x1f{record_id}")


class AlertMaker:
    """Makes the alerts of one rule version; their common parts are computed once."""

    def __init__(self, version: RuleVersion, program: Program) -> None:
        rule = version.rule
        formula = program.formula
        self._line = program.comparison if formula is None else formula.fixed_line
        self._formed = formula if self._line is None else None
        self._steps = () if program.sequence is None else program.sequence.names
        self._waits = program.absence is not None
        self._sentence = rule.sentence
        # Where all alerts have one threshold: by identity, sentences of the rule, and each with the threshold in it.
        self._filled: dict[int, tuple[Sentence, Sentence]] = {}
        self._template = rule.template if self._line is not None and _says_plainly(rule) else None
        self._window_ms = program.window_ms
        names = () if program.verdict is None else program.verdict.figure_names
        self._kept = {name: _kept(figure) for name, figure in zip(names, program.figures, strict=True)}
        self._kept |= {name: _kept(figure) for each in program.cross_key for name, figure in each.figures.items()}
        self._kind = "shadow" if version.kind == "shadow" else "alert"
        self._share = None if version.slots is None else version.slots.text
        self._rule = {
            "rule_id": rule.rule_id,
            "rule_version": rule.version,
            "rule_type": rule.rule_type,
            "severity": rule.severity,
            "score": rule.score,
            "action": rule.action,
        }
        self._evidence = program.evidence
        self._record = program.record
        self._notes = dict(program.evidence.notes)
        self._more = _given(rule, emit_to_sink=program.emission.delivered)
        self._seeded = _SEEDED.copy()
        self._seeded.update(f"{rule.rule_id}\x1f{rule.version}\x1f".encode())

    def make(self, hit: Hit, detected_ms: int) -> dict[str, Any]:
        """One alert, or a correction of one, as ``alert`` makes it.

        A correction has the alert's new value and its former one. A retraction has no new value, and the former
        evidence and message. An alert of a shadow rule is of kind ``shadow``.
        """
        alert, correction = self.alert(hit, detected_ms), hit.correction
        if correction is None:
            return alert
        corrects, before = alert["alert_id"], correction.before
        was = None if before is None else json_value(before.value)
        changed = {
            "alert_id": correction_id(corrects, correction.caused_by),
            "kind": "correction" if self._kind == "alert" else self._kind,
            "corrects": corrects,
            "outcome": correction.outcome,
            "value_before": was,
            "caused_by": correction.caused_by,
        }
        if correction.outcome == "retracted":
            changed |= {"value": None, "message": f"retracted: {alert['message']}"}
        carried = {"record": alert.pop("record")} if "record" in alert else {}
        return {**alert, **changed, **carried}

    def alert(self, hit: Hit, detected_ms: int) -> dict[str, Any]:
        """One alert as JSON values, fields in the stable order; the sink sets ``delivered_at``.

        Of ``record_ids`` the last 50 are kept.
        """
        evidence: dict[str, Any] = {"count": hit.count, "record_ids": list(hit.record_ids[-EVIDENCE_IDS_MAX:])}
        if hit.rests_on is not None:
            evidence["hits" if self._evidence.hits else "alert_ids"] = list(hit.rests_on[-EVIDENCE_IDS_MAX:])
        evidence |= self._notes
        message_fields = {**self._notes, **hit.fields} if self._notes else hit.fields
        if hit.figures is not None:
            evidence["figures"] = {name: {**_read(each), **self._kept[name]} for name, each in hit.figures.items()}
            evidence["fields"] = {name: json_value(value) for name, value in hit.fields.items()}
            evidence |= {name: json_value(value) for name, value in hit.shows.items()}
            message_fields = {
                **message_fields,
                **hit.shows,
                **{name: figure.value for name, figure in hit.figures.items()},
            }
        elif hit.fields:
            evidence["figures"] = dict(hit.fields)
        if self._evidence.context:
            evidence = _beside_context(hit, evidence, self._evidence)
        evidence |= self._kept.get("", {})
        if self._steps:
            evidence["steps"] = _steps(self._steps[: hit.count], evidence["record_ids"])
        if self._waits:
            evidence |= _waited(hit)
        if self._share is not None:
            evidence["share"] = self._share
        if hit.records is not None:
            evidence["records"] = [_listed(record) for record in hit.records]
        value, start_ms, end_ms = hit.value, hit.window_start_ms, hit.window_end_ms
        line = self._line if self._formed is None else self._formed.line_at(value, _formula_inputs(hit))
        line = None if value is None else line
        operator, threshold = (None, None) if line is None else (line.operator, line.threshold)
        shown = (value, threshold, operator, self._window_ms, hit.key, hit.count, message_fields)
        return {
            "schema_version": SCHEMA_VERSION,
            "alert_id": uuid5_text(self._seeded, f"{canonical_key(hit.key)}\x1f{hit.record_id}"),
            "kind": self._kind,
            **self._rule,
            "key": dict(hit.key),
            "stream": hit.place[1],
            "record_id": hit.record_id,
            "event_time": (event_time := instant_text(hit.event_ms)),
            "ingest_time": event_time if hit.ingest_ms == hit.event_ms else instant_text(hit.ingest_ms),
            "value": json_value(value),
            "operator": operator,
            "threshold": threshold,
            "window_start": None if start_ms is None else instant_text(start_ms),
            "window_end": event_time if end_ms == hit.event_ms else None if end_ms is None else instant_text(end_ms),
            "evidence": evidence,
            "message": self._words(value, line)(*shown),
            "corrects": None,
            "detected_at": instant_text(detected_ms),
            "delivered_at": None,
            **self._more,
            **({} if self._record is None else {"record": record_json(self._record, hit.record_id, hit.carried)}),
        }

    def _words(self, value: float | None, line: Comparison | None) -> Callable[..., str]:
        """What words an alert: the rule, or its sentence with the threshold in it, which is made once."""
        if self._template is None or line is None:
            return self._sentence
        template = self._template(value)
        known = self._filled.get(id(template))
        if known is None:
            filled = template.filled(line.threshold, line.operator, self._window_ms)
            known = self._filled[id(template)] = template, filled
        return known[1].say


def _says_plainly(rule: Rule) -> bool:
    """Whether its type says what its template does, and nothing of its own."""
    return type(rule).sentence is Rule.sentence


def alerts_of(plans: Iterable[StreamPlan], hits: Iterable[Hit], detected_ms: int) -> list[dict[str, Any]]:
    """The alert of each hit. ``detected_ms`` is only written into them."""
    programs = {name: program for plan in plans for name, program in plan.programs.items()}
    makers: dict[int, AlertMaker] = {}
    alerts = []
    for hit in hits:
        maker = makers.get(id(hit.version))
        if maker is None:
            rule = hit.version.rule
            maker = makers[id(hit.version)] = AlertMaker(hit.version, programs[rule.rule_id, rule.version])
        alerts.append(maker.make(hit, detected_ms))
    return alerts


def _formula_inputs(hit: Hit) -> dict[str, Any]:
    """The figures and fields that a formula read, by name."""
    return {**hit.fields, **{name: figure.value for name, figure in (hit.figures or {}).items()}}


def _read(figure: FigureRead) -> dict[str, Any]:
    """A figure that a formula read."""
    return {
        "value": json_value(figure.value),
        "window_start": instant_text(figure.window_start_ms),
        "window_end": instant_text(figure.window_end_ms),
        "count": figure.count,
    }


def _beside_context(hit: Hit, evidence: Mapping[str, Any], shown: Evidence) -> dict[str, Any]:
    """``evidence`` that is the record's own, beside the context that it was held against."""
    read = evidence["figures"]
    context = {name: read[figure]["value"] for name, figure in shown.context if figure in read}
    context["record_ids"] = evidence["record_ids"]
    body: dict[str, Any] = {"count": 1, "record_ids": [hit.record_id]}
    kept = {name: each for name, each in evidence.items() if name not in {*body, "figures", "fields"}}
    if shown.parts != "context":
        body["fields"] = evidence["fields"]
    if shown.parts != "event":
        body |= {"figures": read, "context": context}
    return {**body, **kept}


def _kept(figure: Figure) -> dict[str, Any]:
    """The precision of a figure that is kept in panes: their length, and the error bound of a sketch."""
    if not figure.window.resolution_ms:
        return {}
    kept: dict[str, Any] = {"resolution": format_duration(figure.window.resolution_ms)}
    return kept if figure.error is None else {**kept, "error": round(figure.error, 4)}


def _steps(names: Sequence[str], record_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The records by the steps that they took; ``names``: the step of each, of which ``record_ids`` has the last."""
    by_step: dict[str, list[str]] = {name: [] for name in names}
    for name, record_id in zip(names[len(names) - len(record_ids) :], record_ids, strict=True):
        by_step[name].append(record_id)
    return [{"name": name, "record_ids": ids} for name, ids in by_step.items()]


def _waited(hit: Hit) -> dict[str, Any]:
    """Until when it was waited for, and from when on it was known that nothing came."""
    body = {"deadline": hit.window_end_ms, "known_at": hit.known_ms}
    return {name: instant_text(ms) for name, ms in body.items() if ms is not None}


def _listed(record: WindowRecord) -> dict[str, Any]:
    """A record of the window: its id, its time on the rule's clock, and the aggregated number where there is one."""
    listed: dict[str, Any] = {"record_id": record.record_id, "time": format_instant(record.clock_ms)}
    return listed if record.value is None else {**listed, "value": record.value}


def _given(rule: Any, *, emit_to_sink: bool) -> dict[str, Any]:
    """What stands in an alert only where the rule gives it; ``emit_to_sink`` only where it is false."""
    more: dict[str, Any] = {}
    if rule.sink_topic is not None:
        more["sink_topic"] = rule.sink_topic
    if rule.owner is not None:
        more["owner"] = rule.owner
    if rule.tags:
        more["tags"] = list(rule.tags)
    if not emit_to_sink:
        more["emit_to_sink"] = False
    return more


_TIME: pa.DataType = pa.timestamp("ms", tz="UTC")
# Alerts as a table, with a column for each field; ``key``, ``evidence`` and ``record`` as JSON, since their fields are
# others from rule to rule; ``alert`` is the whole alert as JSON.
_COLUMNS: dict[str, pa.DataType] = {
    "schema_version": pa.int32(),
    "alert_id": pa.string(),
    "kind": pa.string(),
    "rule_id": pa.string(),
    "rule_version": pa.int32(),
    "rule_type": pa.string(),
    "severity": pa.string(),
    "score": pa.int32(),
    "action": pa.string(),
    "key": pa.string(),
    "stream": pa.string(),
    "record_id": pa.string(),
    "event_time": _TIME,
    "ingest_time": _TIME,
    "value": pa.float64(),
    "operator": pa.string(),
    "threshold": pa.float64(),
    "window_start": _TIME,
    "window_end": _TIME,
    "evidence": pa.string(),
    "message": pa.string(),
    "corrects": pa.string(),
    "detected_at": _TIME,
    "delivered_at": _TIME,
    "record": pa.string(),
    "alert": pa.string(),
}
ALERT_SCHEMA = pa.schema(_COLUMNS)
_JSON_COLUMNS = ("key", "evidence", "record")


def alert_table(alerts: Iterable[Mapping[str, Any]]) -> pa.Table:
    """``alerts`` as a table of ``ALERT_SCHEMA``; integers past 2**53 are rounded in ``value``, exact in ``alert``."""
    rows = list(alerts)
    columns = [pa.array([_cell(row, field) for row in rows], field.type) for field in ALERT_SCHEMA]
    return pa.Table.from_arrays(columns, schema=ALERT_SCHEMA)


def _cell(alert: Mapping[str, Any], field: pa.Field[Any]) -> Any:
    if field.name == "alert":
        return json_bytes(alert).decode()
    value = alert.get(field.name)
    if value is None:
        return None
    if field.name in _JSON_COLUMNS:
        return orjson.dumps(value).decode()
    if field.type == _TIME:
        return datetime.fromisoformat(value).astimezone(UTC)
    # Converted here: Arrow refuses integers that a double does not hold exactly.
    return float(value) if field.type == pa.float64() else value
