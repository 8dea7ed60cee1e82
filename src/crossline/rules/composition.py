"""Rules that read the hits of other rules: ``source_topic: rule:<id>`` is a stream whose records are hits.

A hit as a record has the fields of the record that was hit and, under ``hit``, what the rule found. Its times are those
of that record. Hits of hits go on so, to any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from crossline.basics.streams.inputs import (
    HIT,
    RULE,
    JoinedSpec,
    Reading,
    nested,
    rule_of,
    several_of,
    spec_like,
    written_reading,
)
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.texts.problems import Finding, nearest, one_of, shown
from crossline.rules.registry import rule_class

# The fields of a hit besides its key; ``value`` is missing where a rule has none.
HIT_FIELDS = {
    "value": "number?",
    "severity": "string",
    "score": "integer",
    "version": "integer",
    "shadow": "boolean",
    "record_id": "string",
}


@dataclass(frozen=True, slots=True)
class Head:
    """What others must know of a rule to read its hits: what it reads, and the fields of its key."""

    reading: Reading
    key_fields: tuple[str, ...] = ()


def heads_of(bodies: Iterable[Any]) -> dict[str, Head]:
    """By id the heads of rules as they are written, where they have any (see ``head_of_versions``)."""
    found: dict[str, list[tuple[Rank, Head]]] = {}
    for body in bodies:
        if not isinstance(body, dict) or not isinstance(rule_id := body.get("rule_id"), str):
            continue
        kind = rule_class(body.get("rule_type"))
        reading = kind.reading_written(body) if kind is not None else written_reading(body)
        if reading is not None:
            version = body.get("version")
            rank = (body.get("status") != "draft", version if isinstance(version, int) else 0)
            keys = _key_fields(kind.keys_written(body)) if kind is not None else ()
            found.setdefault(rule_id, []).append((rank, Head(reading, keys)))
    return {rule_id: head_of_versions(each) for rule_id, each in found.items()}


Rank = tuple[bool, int]  # whether it is no draft, and the version


def head_of_versions(ranked: Iterable[tuple[Rank, Head]]) -> Head:
    """Of the versions of a rule: what the highest that is no draft reads, and the fields of all their keys.

    Hits of earlier versions are among those of later ones, and have the keys that these had.
    """
    heads = [head for _, head in sorted(ranked, key=lambda each: each[0])]
    return Head(heads[-1].reading, tuple(dict.fromkeys(key for head in heads for key in head.key_fields)))


class _Reads(Protocol):
    """A rule, as far as it matters here."""

    @property
    def rule_id(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def reading(self) -> Reading: ...


def head_of(rule: _Reads) -> tuple[Rank, Head]:
    """Of a rule that was read, for ``head_of_versions``."""
    given = (getattr(rule, name, None) for name in ("group_by", "entity", "key_fields"))
    keys = next((each for each in given if each), ())
    return (rule.status != "draft", rule.version), Head(rule.reading, _key_fields(keys))


def heads_of_rules(rules: Iterable[_Reads]) -> dict[str, Head]:
    """By id, of rules that were read."""
    found: dict[str, list[tuple[Rank, Head]]] = {}
    for rule in rules:
        found.setdefault(rule.rule_id, []).append(head_of(rule))
    return {rule_id: head_of_versions(each) for rule_id, each in found.items()}


def _key_fields(given: Any) -> tuple[str, ...]:
    keys = [given] if isinstance(given, str) else given if isinstance(given, list | tuple | dict) else ()
    return tuple(key for key in keys if isinstance(key, str))


def way_of(name: str, heads: Mapping[str, Head]) -> list[str]:
    """From ``name`` down to the stream that it comes from: whose records are judged one after the other.

    It ends at the first name that comes again, or that there is not.
    """
    found = [name]
    while (rule_id := rule_of(found[-1])) is not None and rule_id in heads:
        found.append(heads[rule_id].reading.judged[0])
        if found[-1] in found[:-1]:
            break
    return found


def bases_of(source: str, heads: Mapping[str, Head]) -> list[str]:
    """The streams that ``source`` comes from: one, or of the hits of several rules those of each."""
    several = several_of(source)
    names = [source] if several is None else [f"{RULE}{rule_id}" for rule_id in several or heads]
    found = (way_of(name, heads)[-1] for name in names)
    return list(dict.fromkeys(each for each in found if several is None or several_of(each) is None))


@dataclass(frozen=True)
class Sources(Mapping[str, StreamSpec]):
    """All that a rule may read: ``streams``, and the hits of rules with ``heads`` as ``rule:<id>``.

    Iteration gives the streams alone. ``any_key``: every field may have been one of a key, as it may in the versions
    that are in force no more; what judges must not depend on which of them are still known.
    """

    streams: Mapping[str, StreamSpec]
    heads: Mapping[str, Head]
    any_key: bool = False

    @staticmethod
    def of(streams: Mapping[str, StreamSpec], heads: Mapping[str, Head]) -> Sources:
        """``streams``, which may be sources already, with more ``heads``."""
        if isinstance(streams, Sources) and all(streams.heads.get(rule_id) == head for rule_id, head in heads.items()):
            return streams  # with what it has worked out
        if isinstance(streams, Sources):
            return Sources(streams.streams, {**streams.heads, **heads})
        return Sources(streams, heads)

    def __getitem__(self, name: str) -> StreamSpec:
        spec = self._specs.get(name)
        if spec is None:
            spec = self._specs[name] = self._spec(name)
        return spec

    @cached_property
    def _specs(self) -> dict[str, StreamSpec]:
        return {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.streams)

    def __len__(self) -> int:
        return len(self.streams)

    def findings(self, reading: Reading) -> list[Finding]:
        """Why some of its sources cannot be read; each finding's path is the source alone."""
        found = ((source, self.finding(source)) for source in reading.sources)
        return [replace(each, path=(source,)) for source, each in found if each is not None]

    def finding(self, name: str) -> Finding | None:
        """Why ``name`` cannot be read; None where it can."""
        way, several = self._bad_way(name, [], set()), several_of(name)
        if way is None:
            return None
        path, last = ("source_topic",), way[-1]
        if last in way[:-1]:
            ring = [*way[way.index(last) :]] if last == name else way
            return Finding(path, " reads ".join(ring), "rules that do not read their own hits")
        rule_id = rule_of(last)
        if rule_id is not None:
            hint = nearest(rule_id, self.heads) or f"it may stand in any file beside this one: {one_of(self.heads)}"
            if several is not None and rule_id in several:
                return Finding(path, shown(rule_id), "the id of a rule", hint)
            return Finding(path, shown(last), "rule: and the id of a rule", hint)
        expected = f"the name of a stream: {one_of(self.streams) or 'there is none'}"
        return Finding(path, shown(last), expected, nearest(last, self.streams))

    def _bad_way(self, name: str, before: list[str], sound: set[str]) -> list[str] | None:
        """From the first of ``before`` over ``name`` to what cannot be read; None where all can."""
        if name in self.streams or name in sound:
            return None
        several = several_of(name)
        if several is not None:
            # Of all rules those are left out that rest on a risk score: of these there is no ring.
            ways = (self._bad_way(f"{RULE}{rule_id}", before, sound) for rule_id in several)
            return next((each for each in ways if each is not None), None)
        way, rule_id = [*before, name], rule_of(name)
        if name in before or rule_id is None or rule_id not in self.heads:
            return way
        for source in self.heads[rule_id].reading.sources:
            bad = self._bad_way(source, way, sound)
            if bad is not None:
                return bad
        sound.add(name)
        return None

    def members(self, source: str) -> tuple[str, ...]:
        """The rules whose hits are the records of ``source``; none for a stream."""
        several, rule_id = several_of(source), rule_of(source)
        if several is None:
            return () if rule_id is None else (rule_id,)
        return several or self._scoring

    @cached_property
    def _scoring(self) -> tuple[str, ...]:
        """The rules whose hits are part of every risk score: all that can be read and rest on none."""
        return tuple(
            rule_id
            for rule_id in sorted(self.heads)
            if self.finding(f"{RULE}{rule_id}") is None and rule_id not in self._on_risk
        )

    @cached_property
    def _on_risk(self) -> set[str]:
        """The rules that rest on a risk score: those that read one, those that read their hits, and so on."""
        read = {rule_id: {*head.reading.sources} for rule_id, head in self.heads.items()}
        readers: dict[str, set[str]] = {}
        for rule_id, sources in read.items():
            for source in sources:
                readers.setdefault(source, set()).add(rule_id)
        found, left = (
            set[str](),
            [rule_id for rule_id, sources in read.items() if any(several_of(each) is not None for each in sources)],
        )
        while left:
            rule_id = left.pop()
            if rule_id not in found:
                found.add(rule_id)
                left += readers.get(f"{RULE}{rule_id}", ())
        return found

    def base(self, name: str) -> str:
        """The stream whose records are hit in the end. Raises KeyError where ``name`` cannot be read."""
        base = way_of(name, self.heads)[-1]
        if base not in self.streams:
            raise KeyError(name)
        return base

    def depth(self, name: str) -> int:
        """1 for a stream, 2 for the hits of a rule that reads one, and so on."""
        known = self._depths.get(name)
        if known is None and several_of(name) is not None:
            hits = (self.depth(f"{RULE}{rule_id}") for rule_id in self.members(name))
            known = self._depths[name] = max(hits, default=2)
        if known is None:
            rule_id = rule_of(name)
            head = self.heads.get(rule_id) if rule_id is not None else None
            known = self._depths[name] = 1 if head is None else self.depth_of(head.reading) + 1
        return known

    def depth_of(self, reading: Reading) -> int:
        """The greatest depth of what is read; cross-key figures count one more."""
        own = map(self.depth, (*reading.judged, *(side_input.source for side_input in reading.side_inputs)))
        return max([*own, *(self.depth_of(each) + 1 for each in reading.cross_key)])

    @cached_property
    def _depths(self) -> dict[str, int]:
        return {}

    def of_reading(self, reading: Reading) -> StreamSpec:
        """The records that are judged: what those of all that it judges have; beside them what it looks at."""
        if reading.single:
            return self[reading.judged[0]]
        first, *more = (self[source] for source in reading.judged)
        columns = dict(first.columns)
        for spec in more:
            shared = {name: (each, spec.columns.get(name)) for name, each in columns.items()}
            columns = {name: _either(*both) for name, both in shared.items() if _alike(*both)}
        others = {source: self[source] for source in reading.sources if several_of(source) is None}
        judged = spec_like(first, columns, others)
        scores = {side_input.source for side_input in reading.side_inputs if several_of(side_input.source) is not None}
        scores |= {
            side_input.source
            for each in reading.cross_key
            for side_input in each.side_inputs
            if several_of(side_input.source) is not None
        }
        others |= {source: self._of_several(source, judged, reading) for source in scores}
        return spec_like(first, columns, others)

    def _of_several(self, source: str, judged: StreamSpec, reading: Reading) -> StreamSpec:
        """The hits of several rules, beside ``judged``: their score, and what keys of the judged may be in them.

        A field of that name that is of another type is another one. Of named rules all have it; of all rules it may be
        that none has, as rules come and go.
        """
        side_inputs = [
            side_input
            for each in (reading, *reading.cross_key)
            for side_input in each.side_inputs
            if side_input.source == source
        ]
        pairs = {(side_input.there(here), here) for side_input in side_inputs for here in judged.columns}
        names = [f"{RULE}{rule_id}" for rule_id in self.members(source)]
        mine = [self[name].columns for name in names if self.finding(name) is None]  # others are reported elsewhere
        every = bool(several_of(source))
        keys = {}
        for there, here in sorted(pairs):
            have = [_alike(judged.columns[here], columns.get(there)) for columns in mine]
            there_at_all = all(have) if every else any(have) or there == here
            if there_at_all and not judged.columns[here].is_list:
                keys[there] = replace(judged.columns[here], optional=True)
        hits = {
            f"{HIT}.{name}": FieldSpec("boolean" if name == "shadow" else "integer") for name in ("score", "shadow")
        }
        return spec_like(judged, {**{name: each for name, each in keys.items() if not _of_hit(name)}, **hits}, {})

    def _spec(self, name: str) -> StreamSpec:
        if name in self.streams:
            return self.streams[name]
        self.base(name)
        head = self.heads[name.removeprefix(RULE)]
        read = self.of_reading(head.reading)
        single = {field: spec for field, spec in read.columns.items() if not spec.is_list}
        fields = nested({field: str(spec) for field, spec in single.items() if not _of_hit(field)})
        named = single if self.any_key else head.key_fields
        keys = {field: f"{single[field].kind}?" for field in named if field in single and not _of_hit(field)}
        fields[HIT] = {**HIT_FIELDS, "key": nested(keys)} if keys else dict(HIT_FIELDS)
        given = {**read.model_dump(mode="json", by_alias=True), "fields": fields, "enrich": {}}
        if len(head.reading.judged) > 1:
            given["id"] = f"{HIT}.record_id"  # records of other streams may have theirs in another field
        return JoinedSpec.model_validate(given)


def _alike(one: FieldSpec, other: FieldSpec | None) -> bool:
    return other is not None and (one.kind, one.is_list, one.sensitive) == (
        other.kind,
        other.is_list,
        other.sensitive,
    )


def _either(one: FieldSpec, other: FieldSpec | None) -> FieldSpec:
    return replace(one, optional=one.optional or (other is not None and other.optional))


def _of_hit(field: str) -> bool:
    return field.startswith(f"{HIT}.")
