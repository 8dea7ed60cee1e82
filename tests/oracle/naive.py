"""The naive twin of detection: each window is found by scanning all earlier records, so reading it is checking it."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from .absences import in_vain
from .aggregates import aggregate
from .conditions import ORDERINGS, Lists, field_value, holds, lists_at
from .duplicates import Copies
from .formulas import FIELDS, FIRST, FLOATS, VALUES, WHENS
from .key_spaces import Space, key_spaces
from .results import Hit, Memory, NaiveResult, Standing
from .rule_versions import DEFAULTS, Rule, decides, duration_ms, read_snapshot
from .sequences import by_step, completed

# Written out, not imported: alert ids are a promise to other programs, so a change of the package's own must fail here.
NAMESPACE = uuid.UUID("7d0f6f8e-8c1c-5e0b-9a53-2f1b2c3d4e5f")
EVIDENCE_IDS_MAX = 50

Key = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """``position`` in the list given, which is the ingest order. ``reached_ms``: what its log had reached by it."""

    position: int
    record_id: str
    event_ms: int
    ingest_ms: int
    fields: Mapping[str, Any]
    reached_ms: float = 0


def running_max_ingest(event_ms: Sequence[int]) -> list[int]:
    """Ingest times of a log that gives none: at each record the greatest event time up to and including it."""
    return list(itertools.accumulate(event_ms, max))


def naive_detect(
    rules: Sequence[Mapping[str, Any]],
    records: Sequence[Mapping[str, Any]],
    *,
    defaults: Mapping[str, str] | None = None,
    lists: Lists | None = None,
    passed_ms: float | None = None,
) -> NaiveResult:
    """Judge ``records`` of one stream, in ingest order, by ``rules`` as in YAML, in the order of their publication.

    A record is its fields (dotted or nested) with ``_id``, ``_event_ms`` and ``_ingest_ms``. ``defaults`` are the
    pipeline's (``time_mode``, ``watermark_delay``, ``allowed_lateness``). ``passed_ms``: where the stream's clock
    stands in the end, by which absences are emitted (None: at the highest ingest time).

    Each key space remembers the ids of the records that entered one of its windows, and judges no record of the same
    key and id. Which records are reported as duplicates, and which as late, says ``Copies``.
    """
    snapshot = read_snapshot(rules, defaults or {})
    default_ms = duration_ms({**DEFAULTS, **(defaults or {})}["allowed_lateness"])
    spaces = key_spaces(snapshot, default_ms)
    copies = Copies(snapshot, default_ms)
    thresholds = [rule for rule in snapshot if rule.rule_type == "threshold"]
    result = NaiveResult()
    memories: dict[tuple[str, int, str], Memory] = {}
    taken: dict[Space, list[Record]] = {space: [] for space in spaces}
    reached_ms = -math.inf
    for position, fields in enumerate(records):
        reached_ms = fields.get("_reached_ms", max(reached_ms, fields["_ingest_ms"]))
        times = fields["_event_ms"], fields["_ingest_ms"]
        record = Record(position, fields["_id"], *times, _with_one_zero(fields), reached_ms)
        repeated = {space: _is_repeated(space, record, earlier) for space, earlier in taken.items()}
        looked_at = record.fields.get("_stream") is not None  # by figures, or it takes a step
        fate = "" if looked_at else copies.fate(record.record_id, _lateness_ms(record), record.ingest_ms)
        if fate:
            (result.duplicates if fate == "duplicate" else result.late).append(position)
        new_to = [space for space, is_known in repeated.items() if not is_known]
        windowed = [(rule, taken[s]) for s in new_to for rule in s.rules if rule.steps or not looked_at]
        alone = [] if fate == "duplicate" or looked_at else [(rule, list[Record]()) for rule in thresholds]
        for rule, earlier in windowed + alone:
            if rule.rule_type != "absence" and _judges(rule, record, lists or {}):
                for key in _keys(rule, record, lists or {}):
                    memory = memories.setdefault((rule.rule_id, rule.version, canonical(key)), Memory())
                    memory.stands = False
                    hits = _judge(rule, record, key, earlier, memory, lists or {})
                    result.hits.extend(hits)
                    for hit in hits:
                        memory.alert_id = hit.alert_id
                    if memory.stands:
                        result.standing.append(_standing(rule, record, key, memory))
        for space, earlier in taken.items():
            pieces = [piece for rule in space.rules for piece in rule.pieces]
            if not repeated[space] and any(_enters(piece, record, lists or {}) for piece in pieces):
                earlier.append(record)
    for space in spaces:
        for spans in _waiting(space):
            passed = reached_ms if passed_ms is None else passed_ms
            result.hits.extend(_in_vain(spans, taken[space], lists or {}, passed))
    return result


def _waiting(space: Space) -> Iterable[list[Rule]]:
    """The absences of a key space: by version, what it was under each status."""
    found: dict[tuple[str, int], list[Rule]] = {}
    for rule in space.rules:
        if rule.after is not None:
            found.setdefault((rule.rule_id, rule.version), []).append(rule)
    return found.values()


def _in_vain(spans: Sequence[Rule], records: Sequence[Record], lists: Lists, passed_ms: float) -> Iterator[Hit]:
    """The hits of an absence; ``records``: all that entered its key space.

    ``spans``: one version, under each status that it had. Its cooldown goes on when the status changes.
    """
    rule = spans[0]
    by_key: dict[str, list[Record]] = {}
    for record in records:
        for key in _keys(rule, record, lists):
            by_key.setdefault(canonical(key), []).append(record)
    for name, mine in by_key.items():

        def is_in(part: Rule, other: Record, key: str = name) -> bool:
            own = dict(zip(rule.group_by, _key(part, other).values(), strict=True))
            return _enters(part, other, lists) and canonical(own) == key

        memory = Memory()
        known = in_vain(rule, mine, is_in, lambda r: _clock_ms(rule, r), passed_ms)
        for (known_ms, *_), record, waited_ms in known:
            now_ms = _clock_ms(rule, record)
            judging = next((each for each in spans if each.after and _judges(each.after, record, lists)), None)
            if judging is not None and _emits(judging, memory, now_ms, satisfied=True):
                hit = replace(_hit(judging, record, waited_ms, [record]), known_ms=round(known_ms))
                yield replace(hit, window_start_ms=now_ms, window_end_ms=now_ms + rule.window_ms)


def _standing(rule: Rule, record: Record, key: Key, memory: Memory) -> Standing:
    kind = "alert" if decides(rule, key) else "shadow"
    emitted_ms = -math.inf if memory.emitted_clock_ms is None else memory.emitted_clock_ms
    beyond = emitted_ms < _clock_ms(rule, record) - max(rule.cooldown_ms, rule.own_reach_ms)
    return Standing(rule.rule_id, rule.version, record.position, memory.alert_id, kind, beyond)


def _with_one_zero(fields: Mapping[str, Any]) -> dict[str, Any]:
    """-0.0 is 0.0, in keys, in values and in what is compared."""
    return {name: value + 0.0 if isinstance(value, float) else value for name, value in fields.items()}


def _is_repeated(space: Space, record: Record, earlier: Sequence[Record]) -> bool:
    """Whether the key space remembers a record of this id and key."""
    key = [field_value(record.fields, name) for name in space.group_by]
    return any(
        old.record_id == record.record_id
        and old.fields.get("_stream") == record.fields.get("_stream")
        and [field_value(old.fields, name) for name in space.group_by] == key
        and old.ingest_ms >= record.ingest_ms - space.remembers_ms
        for old in earlier
    )


def _judges(rule: Rule, record: Record, lists: Lists) -> bool:
    in_force = rule.status in {"active", "shadow"} and rule.from_ms <= record.ingest_ms < rule.until_ms
    skipped = rule.event_time and rule.late_policy == "skip" and _lateness_ms(record) > rule.watermark_delay_ms
    return in_force and not skipped and bool(_keys(rule, record, lists))


def _keys(rule: Rule, record: Record, lists: Lists) -> list[Key]:
    """The keys by which the rule looks at the record: one, but for sequences whose steps have keys of their own."""
    pieces = rule.pieces if rule.steps or rule.after is not None else (rule,)
    entered = [piece for piece in pieces if _enters(piece, record, lists)]
    found = [dict(zip(rule.group_by, _key(piece, record).values(), strict=False)) for piece in entered]
    return list({canonical(key): key for key in found}.values())


def _judge(rule: Rule, record: Record, key: Key, earlier: Sequence[Record], memory: Memory, lists: Lists) -> list[Hit]:
    if rule.rule_type == "threshold":
        return [_hit(rule, record, None, [record])]
    if rule.rule_type == "formula":
        return _judge_formula(rule, record, earlier, memory, lists)
    if rule.rule_type == "dormancy":
        return _judge_dormancy(rule, record, earlier, memory, lists)
    if rule.rule_type == "sequence":
        return _judge_sequence(rule, record, key, earlier, memory, lists)
    window = _window(rule, record, earlier, lists)
    value = aggregate(rule.aggregate, [field_value(other.fields, rule.field) if rule.field else 1 for other in window])
    satisfied = value is not None and ORDERINGS[rule.operator](value, rule.threshold)
    return [_hit(rule, record, value, window)] if _emits(rule, memory, _clock_ms(rule, record), satisfied) else []


def _judge_formula(rule: Rule, record: Record, earlier: Sequence[Record], memory: Memory, lists: Lists) -> list[Hit]:
    windows = {name: _window(figure, record, earlier, lists) for name, figure in rule.figures}
    keyless = {name for name, figure in rule.figures if None in _key(figure, record).values()}  # of another key
    values = {
        name: None if name in keyless else _value(figure, record, windows[name], lists) for name, figure in rule.figures
    }
    values |= {name: field_value(record.fields, name) for name in FIELDS}
    if not _emits(rule, memory, _clock_ms(rule, record), rule.probe or WHENS[rule.when](values)):
        return []
    (first, figure), *_ = rule.figures
    value = FIRST[rule.when](values) if rule.value is None else VALUES[rule.value](values)
    shown = _hit(figure, record, value, windows[first])
    return [
        replace(
            _hit(rule, record, value, windows[first]),
            window_start_ms=shown.window_start_ms,
            window_end_ms=shown.window_end_ms,
            figures={n: (values[n], len(windows[n])) for n, _ in rule.figures if n in f"{rule.when} {rule.value}"},
            fields={n: values[n] for n in FIELDS if n in f"{rule.when} {rule.value}"},
        )
    ]


def _judge_dormancy(rule: Rule, record: Record, earlier: Sequence[Record], memory: Memory, lists: Lists) -> list[Hit]:
    """The first record of any kind in the window woke the key, if it came long enough after the last one before."""
    now_ms, pieces = _clock_ms(rule, record), dict(rule.figures)
    known = _window(replace(pieces["woke"], window_ms=rule.reach_ms), record, earlier, lists)
    within = [each for each in known if _clock_ms(rule, each) > now_ms - rule.window_ms]
    before = [each for each in known if each not in within]
    matching = [each for each in within if _enters(rule, each, lists)]
    woke_ms, seen_ms = _clock_ms(rule, within[0]), _clock_ms(rule, before[-1]) if before else None
    silent = rule.include_unseen if seen_ms is None else woke_ms - seen_ms >= rule.inactive_ms
    satisfied = rule.probe or (silent and rule.threshold is not None and len(matching) >= rule.threshold)
    if not _emits(rule, memory, now_ms, satisfied):
        return []
    figures: dict[str, tuple[Any, int]] = {
        "matching": (len(matching), len(matching)),
        "woke": (now_ms - woke_ms, len(within)),
    }
    figures["last_seen"] = (None if seen_ms is None else now_ms - seen_ms, len(before))
    return [replace(_hit(rule, record, len(matching), matching), figures=figures)]


def _judge_sequence(
    rule: Rule, record: Record, key: Key, earlier: Sequence[Record], memory: Memory, lists: Lists
) -> list[Hit]:
    def is_in(part: Rule, other: Record) -> bool:
        return _enters(part, other, lists) and [*_key(part, other).values()] == [*key.values()]

    came = [other for other in (*earlier, record) if any(is_in(part, other) for part in rule.pieces)]
    match = completed(rule, came, is_in, lambda other: _clock_ms(rule, other))
    if not match or not _emits(rule, memory, _clock_ms(rule, record), satisfied=True):
        return []
    hit = replace(_hit(rule, record, len(match), match), key=key, alert_id=alert_id_of(rule, key, record.record_id))
    return [replace(hit, window_start_ms=_clock_ms(rule, match[0]), steps=by_step(rule, match, EVIDENCE_IDS_MAX))]


def _value(figure: Rule, record: Record, window: Sequence[Record], lists: Lists) -> Any:
    streak = figure.streak_of
    return aggregate(
        figure.aggregate,
        [field_value(r.fields, figure.field) if figure.field else 1 for r in window],
        # Of floats a sum of none is one too: nothing shows it but what a formula makes of it, as 0.0 - 1.
        real=figure.field in FLOATS,
        clocks_ms=[_clock_ms(figure, r) for r in window],
        now_ms=_clock_ms(figure, record),
        meets=[holds(streak, r.fields, lists_at(lists, r.ingest_ms)) for r in window] if streak is not None else [],
        rank=figure.rank,
    )


def _enters(rule: Rule, record: Record, lists: Lists) -> bool:
    """Whether the record enters the rule's windows. Whether the rule is in force when it comes does not matter."""
    if record.fields.get("_stream") != rule.source:
        return False
    has_key = all(value is not None for value in _key(rule, record).values())
    has_field = rule.field is None or field_value(record.fields, rule.field) is not None
    very_late = _lateness_ms(record) > rule.allowed_lateness_ms
    meets = holds(rule.conditions, record.fields, lists_at(lists, record.ingest_ms))
    return has_key and has_field and not very_late and meets


def _lateness_ms(record: Record) -> int:
    return record.ingest_ms - record.event_ms


def _clock_ms(rule: Rule, record: Record) -> int:
    return record.event_ms if rule.event_time else record.ingest_ms


def _key(rule: Rule, record: Record) -> Key:
    names = rule.there if rule.there and record.fields.get("_stream") == rule.source else rule.group_by
    key = {here: field_value(record.fields, name) for here, name in zip(rule.group_by, names, strict=True)}
    return {} if rule.rule_type == "threshold" and None in key.values() else key  # no entity, and a hit all the same


def _window(rule: Rule, record: Record, earlier: Sequence[Record], lists: Lists) -> tuple[Record, ...]:
    """The earlier records of its key that enter, with their clock within the bounds; itself if the rule includes it."""
    key, now_ms = canonical(_key(rule, record)), _clock_ms(rule, record)
    first_ms, last_ms = _span(rule, now_ms)
    found = [
        other
        for other in earlier  # what is cheap to ask comes first: this is where the tests' time goes
        if first_ms <= (other.event_ms if rule.event_time else other.ingest_ms) <= last_ms
        and canonical(_key(rule, other)) == key
        and _enters(rule, other, lists)
    ]
    if rule.include_current and not rule.delay_ms and _enters(rule, record, lists):
        found.append(record)
    return tuple(sorted(found, key=lambda other: (_clock_ms(rule, other), other.position)))


def _has_left(rule: Rule, clock_ms: float, now_ms: int) -> bool:
    """Whether a record of ``clock_ms`` is past the far end of the window of one of ``now_ms``."""
    if rule.figures and rule.rule_type != "dormancy":  # each waking is one of its own
        own = (figure for _, figure in rule.figures if figure.group_by == rule.group_by)
        return all(_has_left(figure, clock_ms, now_ms) for figure in own)
    first_ms, _ = _span(rule, now_ms)
    return clock_ms < first_ms


def _span(rule: Rule, now_ms: int) -> tuple[int, int]:
    """The first and the last instant of the window of a record at ``now_ms``: instants are whole milliseconds."""
    far_ms, end_ms = _edges(rule, now_ms)
    has_far = rule.bounds.startswith("[") or rule.resolution_ms
    is_open = rule.bounds.endswith(")") or (rule.delay_ms and rule.resolution_ms)
    return far_ms if has_far else far_ms + 1, end_ms - 1 if is_open else end_ms


def _edges(rule: Rule, now_ms: int) -> tuple[int, int]:
    """Where the window of a record at ``now_ms`` begins and ends; rounded down where the past is kept in panes."""
    end_ms = now_ms - rule.delay_ms
    far_ms, pane_ms = end_ms - rule.window_ms, rule.resolution_ms
    if not pane_ms:
        return far_ms, end_ms
    return far_ms - far_ms % pane_ms, end_ms - end_ms % pane_ms if rule.delay_ms else end_ms


def _emits(rule: Rule, memory: Memory, now_ms: int, satisfied: bool) -> bool:
    """Whether a judged record emits; takes it into the memory."""
    still_satisfied = memory.satisfied and not _has_left(rule, memory.judged_clock_ms, now_ms)
    memory.satisfied, memory.judged_clock_ms = satisfied, now_ms
    memory.stands = satisfied
    if not satisfied or (rule.emit == "on_crossing" and still_satisfied):
        return False
    cooling = memory.emitted_clock_ms is not None and now_ms < memory.emitted_clock_ms + rule.cooldown_ms
    if rule.cooldown_ms > 0 and cooling:
        return False
    memory.emitted_clock_ms, memory.stands = now_ms, False
    return True


def canonical(key: Key) -> str:
    """A key as JSON text: fields in the order of ``group_by``, no spaces, floats in orjson's words (``1e16``)."""
    return orjson.dumps(key).decode()


def alert_id_of(rule: Rule, key: Key, record_id: str) -> str:
    """A pure function of what caused the alert."""
    return str(uuid.uuid5(NAMESPACE, "\x1f".join((rule.rule_id, str(rule.version), canonical(key), record_id))))


def _hit(rule: Rule, record: Record, value: float | None, window: Sequence[Record]) -> Hit:
    key = _key(rule, record)
    windowed = rule.rule_type != "threshold"
    start_ms, end_ms = _edges(rule, _clock_ms(rule, record))
    known = [other for other in window if not rule.panes_ms or other is record]
    return Hit(
        alert_id=alert_id_of(rule, key, record.record_id),
        rule_id=rule.rule_id,
        version=rule.version,
        key=key,
        record_id=record.record_id,
        position=record.position,
        kind="alert" if decides(rule, key) else "shadow",
        value=value,
        count=len(window),
        window_start_ms=start_ms if windowed else None,
        window_end_ms=end_ms if windowed else None,
        evidence=tuple(other.record_id for other in known[-EVIDENCE_IDS_MAX:]),
    )
