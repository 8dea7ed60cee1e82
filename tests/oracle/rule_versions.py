"""Rules as in YAML, read into plain values, and the interval of the ingest clock in which each version is in force."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from crossline.programs.registry import declared, names

UNIT_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
DEFAULTS = {"time_mode": "event_time", "watermark_delay": "45s", "allowed_lateness": "2m"}
ALL = (0, 1_000_000)  # slots of keys


@dataclass(frozen=True)
class Entry:
    """One line of the rule log: ``body`` is in force from ``from_ms`` until ``until_ms`` on the ingest clock."""

    body: Mapping[str, Any]
    from_ms: float
    until_ms: float
    slots: tuple[int, int] = ALL


@dataclass(frozen=True)
class Rule:
    """A rule body with every default filled in and every duration in milliseconds.

    ``allowed_lateness_ms`` is infinite on the ingest clock, on which nothing is late.
    """

    rule_id: str
    version: int
    rule_type: str
    status: str
    conditions: Any
    group_by: tuple[str, ...]
    aggregate: str
    field: str | None
    operator: str
    threshold: float | int | None
    window_ms: int
    bounds: str
    include_current: bool
    emit: str
    cooldown_ms: int
    event_time: bool
    watermark_delay_ms: int
    allowed_lateness_ms: float
    late_policy: str
    from_ms: float
    until_ms: float
    slots: tuple[int, int] = ALL
    delay_ms: int = 0
    when: str = ""
    value: str | None = None
    figures: tuple[tuple[str, Rule], ...] = ()
    streak_of: Any = None
    rank: float = 0.0
    inactive_ms: int = 0
    include_unseen: bool = False
    resolution_ms: int = 0  # its window begins with a pane of this length
    probe: bool = False  # satisfied at each record that it judges, or that takes a step
    steps: tuple[tuple[str, int, Rule], ...] = ()  # names, how many records, and which
    until: Rule | None = None
    strict: bool = False
    after: Rule | None = None  # of an absence, what waits and what it waits for
    expect: Rule | None = None
    source: str | None = None  # of a figure: the other stream that it is of
    there: tuple[str, ...] = ()  # and what its key is called there

    @property
    def reach_ms(self) -> int:
        """How far back from a record its windows reach."""
        return max([self.window_ms + self.delay_ms, *(each.reach_ms for _, each in self.figures)])

    @property
    def own_reach_ms(self) -> int:
        """The same, of windows over its own key only."""
        own = [each.reach_ms for _, each in self.figures if each.group_by == self.group_by]
        return max([self.window_ms + self.delay_ms, *own])

    @property
    def panes_ms(self) -> int:
        """The length of the panes that it, or a figure of it, is kept in; 0: none."""
        return max([self.resolution_ms, *(each.resolution_ms for _, each in self.figures)])

    @property
    def pieces(self) -> tuple[Rule, ...]:
        """Itself, and its figures as if each were a rule: each has records that enter it.

        Of a sequence its steps and what ends them, and itself only where others may not come in between.
        """
        if self.after is not None and self.expect is not None:
            return (self.after, self.expect)
        if self.steps:
            ends = () if self.until is None else (self.until,)
            return (*(step for _, _, step in self.steps), *ends, *((self,) if self.strict else ()))
        return (self, *(each for _, each in self.figures))


def duration_ms(text: str) -> int:
    """``10m``, ``1500 ms``: one number, one unit."""
    match = re.fullmatch(r"(\d+)\s*([a-z]+)", text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    return int(match[1]) * UNIT_MS[match[2]]


def instant_ms(value: float | str | dt.datetime) -> float:
    """Epoch ms from a number of them, RFC 3339 text, or what YAML makes of such text."""
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    return value


def read_snapshot(bodies: Sequence[Mapping[str, Any]], defaults: Mapping[str, str]) -> list[Rule]:
    """The rules that judge at some time; a body that is paused, retired or in force for no instant only ends others."""
    rules = [read_rule(entry, defaults) for entry in rule_log(bodies)]
    return [rule for rule in rules if rule.status in {"active", "shadow"} and rule.from_ms < rule.until_ms]


def rule_log(bodies: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Entries in force, from bodies in the order in which they were published.

    A body is in force from its ``effective_from`` (none: from the beginning) until that of any later body of its rule
    id, a pause or retirement included. The same version with another status is one more body. Drafts are left out.
    """
    published = [body for body in bodies if body.get("status") != "draft"]
    entries = []
    for position, body in enumerate(published):
        later = [_from_ms(other) for other in published[position + 1 :] if other["rule_id"] == body["rule_id"]]
        from_ms, until_ms = _from_ms(body), min(later, default=math.inf)
        takes = _takes(body)
        entries.append(Entry(body, from_ms, until_ms, (0, takes) if body.get("status") != "shadow" else ALL))
        mine = [each for each in published[:position] if each["rule_id"] == body["rule_id"]]
        whole = [each for each in mine if each["version"] < body["version"] and _takes(each) == ALL[1]]
        if takes < ALL[1] and whole:
            entries.append(Entry(whole[-1], from_ms, until_ms, (takes, ALL[1])))
    return entries


def _takes(body: Mapping[str, Any]) -> int:
    """How many of a million slots of keys a body takes from the version before it."""
    share, status = body.get("share"), body.get("status", "active")
    if share is None or status == "retired":
        return ALL[1]
    return round(float(share.rstrip("%")) * 10_000) if status == "active" else 0


def decides(rule: Rule, key: Mapping[str, Any]) -> bool:
    """Whether a rule decides about a key, by its hash."""
    if rule.status == "shadow":
        return False
    named = f"{rule.rule_id}\x1f".encode() + orjson.dumps(key)
    slot = int(hashlib.sha256(named).hexdigest()[:16], 16) * ALL[1] // 2**64
    return rule.slots[0] <= slot < rule.slots[1]


def _from_ms(body: Mapping[str, Any]) -> float:
    return instant_ms(body["effective_from"]) if body.get("effective_from") is not None else -math.inf


def read_rule(entry: Entry, defaults: Mapping[str, str]) -> Rule:
    """The rule of a log entry. ``defaults``: those of the pipeline, over which the rule's own fields win."""
    standing = {**DEFAULTS, **defaults}
    body = {**standing, **entry.body}
    if body["rule_type"] == "list":
        body |= {"rule_type": "threshold", "conditions": {"all": [_looked_up(body), *_as_list(body.get("conditions"))]}}
    if "inactive_for" in body:
        body |= {"figures": _of_dormancy(body), "when": "matching", "aggregation_threshold": body.get("at_least", 1)}
    text = f"{body.get('when')} {body.get('value')}"
    named = sorted(body.get("figures", {}).items(), key=lambda each: text.find(each[0]) % (len(text) + 1))
    figures = tuple((name, _figure(entry, each, defaults)) for name, each in named)
    group_by = body.get("group_by") or body.get("entity") or (figures[0][1].group_by if figures else [])
    group_by = group_by or next((step["group_by"] for step in body.get("steps", ()) if "group_by" in step), [])
    bounds = body.get("bounds", "(]")
    event_time = body["time_mode"] == "event_time"
    return Rule(
        rule_id=body["rule_id"],
        version=body["version"],
        rule_type=body["rule_type"],
        status=body.get("status", "active"),
        conditions=body.get("conditions"),
        group_by=(group_by,) if isinstance(group_by, str) else tuple(group_by),
        aggregate=body.get("aggregation_type", "count"),
        field=body.get("aggregation_field"),
        operator=body.get("operator", ">="),
        threshold=body.get("aggregation_threshold"),
        window_ms=_window_ms(body),
        bounds=bounds,
        include_current=body.get("include_current", bounds != "[)"),
        emit=body.get("emit", "every" if body["rule_type"] in {"sequence", "absence"} else "on_crossing"),
        cooldown_ms=duration_ms(body.get("cooldown", "0ms")),
        event_time=event_time,
        watermark_delay_ms=duration_ms(body["watermark_delay"]),
        allowed_lateness_ms=_allowed_ms(entry.body, standing) if event_time else math.inf,
        late_policy=body.get("late_policy", "evaluate"),
        from_ms=entry.from_ms,
        until_ms=entry.until_ms,
        slots=entry.slots,
        when=body.get("when", ""),
        probe=body.get("probe", False),
        value=body.get("value"),
        figures=figures,
        resolution_ms=duration_ms(body.get("resolution", "0s")),
        inactive_ms=duration_ms(body.get("inactive_for", "0s")),
        include_unseen=body.get("include_unseen", False),
        steps=tuple(
            (each["name"], each.get("times", 1), _part(entry, each, defaults)) for each in body.get("steps", ())
        ),
        until=_part(entry, body["until"], defaults) if "until" in body else None,
        strict=body.get("strict", False),
        after=_part(entry, {"conditions": body["after"]}, defaults) if "after" in body else None,
        expect=_part(entry, _expected(body["expect"]), defaults) if "expect" in body else None,
    )


def _of_dormancy(body: Mapping[str, Any]) -> dict[str, Any]:
    """What its alert shows: the records that match, those of any kind in the window, and those before it."""
    window_ms, inactive_ms = duration_ms(body["window"]), duration_ms(body["inactive_for"])
    known_ms = duration_ms(body["known_for"]) if "known_for" in body else 2 * inactive_ms
    common = {"group_by": body["group_by"], "window": body["window"]}
    return {
        "matching": {**common, "count": True, "conditions": body.get("conditions")},
        "woke": {**common, "age": True},
        "last_seen": {**common, "since": True, "window": f"{known_ms - window_ms}ms", "delay": body["window"]},
    }


def _looked_up(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": body["field"], "operator": body.get("operator", "in"), "value": {"list": body["list"]}}


def _as_list(conditions: Any) -> list[Any]:
    return conditions if isinstance(conditions, list) else [] if conditions is None else [conditions]


_OF_THE_WHOLE = {"figures", "when", "value", "conditions", "group_by", "inactive_for"}


def _figure(entry: Entry, fields: Mapping[str, Any], defaults: Mapping[str, str]) -> Rule:
    """A figure as if it were a rule that counts its records."""
    (aggregate,) = [name for name in names() if name in fields]
    field, rank = declared(aggregate).of(fields[aggregate])
    of = {"aggregation_type": aggregate, "aggregation_field": field}
    kept = {name: value for name, value in fields.items() if name != aggregate}
    body = {n: v for n, v in entry.body.items() if n not in _OF_THE_WHOLE}
    rule = read_rule(Entry({**body, **kept, **of}, entry.from_ms, entry.until_ms), defaults)
    if "include_current" not in fields and declared(aggregate).before_itself:
        rule = replace(rule, include_current=False)
    rule = replace(rule, rank=rank)
    if declared(aggregate).meets:
        rule = replace(rule, conditions=None, streak_of=rule.conditions)
    keys = fields.get("group_by") or []
    there = tuple(keys.values()) if isinstance(keys, dict) else rule.group_by
    source = fields.get("source_topic")
    return replace(rule, delay_ms=duration_ms(fields.get("delay", "0s")), source=source, there=there if source else ())


def _part(entry: Entry, fields: Mapping[str, Any], defaults: Mapping[str, str]) -> Rule:
    """The records of a part of a sequence or an absence, as if they were a rule's: they meet its conditions too."""
    body = {name: value for name, value in entry.body.items() if name not in {"steps", "until", "after", "expect"}}
    source = fields.get("source_topic")
    body |= {"group_by": fields["group_by"]} if "group_by" in fields and source is None else {}
    both = [*((entry.body.get("conditions") or ()) if source is None else ()), *(fields.get("conditions") or ())]
    part = read_rule(Entry({**body, "conditions": both or None}, entry.from_ms, entry.until_ms), defaults)
    there = tuple(fields.get("group_by") or part.group_by) if source is not None else ()
    return replace(part, source=source, there=there)


def _expected(expect: Any) -> Mapping[str, Any]:
    """What an absence waits for: conditions, or a part that says more."""
    plain = isinstance(expect, list) or not {"source_topic", "group_by", "conditions"} & expect.keys()
    return {"conditions": expect} if plain else expect


def _allowed_ms(body: Mapping[str, Any], standing: Mapping[str, str]) -> int:
    """The rule's own bound, else the pipeline's, which a rule that waits longer widens."""
    if "allowed_lateness" in body:
        return duration_ms(body["allowed_lateness"])
    return max(duration_ms(standing["allowed_lateness"]), duration_ms(body.get("watermark_delay", "0ms")))


def _window_ms(body: Mapping[str, Any]) -> int:
    if "within" in body:
        return duration_ms(body["within"])
    if "window" in body:
        return duration_ms(body["window"])
    return int(body["window_size"] * UNIT_MS[body["window_unit"]]) if "window_size" in body else 0
