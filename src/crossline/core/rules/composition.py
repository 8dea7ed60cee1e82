"""Rules that read the hits of other rules: ``source_topic: rule:<id>`` is a stream whose records are hits.

A hit as a record has the fields of the record that was hit and, under ``hit``, what the rule found. Its times are those
of that record. Hits of hits go on so, to any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from crossline.core.streams.schema import StreamSpec
from crossline.core.texts.problems import Finding, nearest, one_of, shown

RULE = "rule:"
HIT = "hit"
# What a hit says besides its key; ``value`` is missing where a rule has none to show.
HIT_FIELDS = {"value": "number?", "severity": "string", "score": "integer", "version": "integer", "shadow": "boolean"}


def rule_of(stream: str) -> str | None:
    """The rule whose hits are the records of ``stream``; None for a stream of its own."""
    return stream.removeprefix(RULE) if stream.startswith(RULE) else None


@dataclass(frozen=True, slots=True)
class Head:
    """What others must know of a rule to read its hits: what it reads, and the fields of its key."""

    source_topic: str
    key_fields: tuple[str, ...] = ()


def heads_of(bodies: Iterable[Any]) -> dict[str, Head]:
    """By id the heads of rules as they are written, where they have any (see ``head_of_versions``)."""
    found: dict[str, list[tuple[Rank, Head]]] = {}
    for body in bodies:
        rule_id, source = (body.get("rule_id"), body.get("source_topic")) if isinstance(body, dict) else (None, None)
        if isinstance(rule_id, str) and isinstance(source, str):
            version = body.get("version")
            rank = (body.get("status") != "draft", version if isinstance(version, int) else 0)
            found.setdefault(rule_id, []).append((rank, Head(source, _keys_written(body))))
    return {rule_id: head_of_versions(each) for rule_id, each in found.items()}


Rank = tuple[bool, int]  # whether it is no draft, and the version


def head_of_versions(ranked: Iterable[tuple[Rank, Head]]) -> Head:
    """Of the versions of a rule: what the highest that is no draft reads, and the fields of all their keys.

    Hits of earlier versions are among those of later ones, and have the keys that these had.
    """
    heads = [head for _, head in sorted(ranked, key=lambda each: each[0])]
    return Head(heads[-1].source_topic, tuple(dict.fromkeys(key for head in heads for key in head.key_fields)))


def _keys_written(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of its key, or of that of its first figure or step."""
    figures, steps = body.get("figures"), body.get("steps")
    parts = [
        body,
        *(figures.values() if isinstance(figures, dict) else ()),
        *(steps if isinstance(steps, list) else ()),
    ]
    given = (part.get("group_by") for part in parts if isinstance(part, dict))
    return next((_key_fields(each) for each in given if each is not None), ())


class _Reads(Protocol):
    """A rule, as far as it matters here."""

    @property
    def rule_id(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def source_topic(self) -> str: ...


def head_of(rule: _Reads) -> tuple[Rank, Head]:
    """Of a rule that was read, for ``head_of_versions``."""
    keys = getattr(rule, "group_by", None) or getattr(rule, "key_fields", ())
    return (rule.status != "draft", rule.version), Head(rule.source_topic, _key_fields(keys))


def heads_of_rules(rules: Iterable[_Reads]) -> dict[str, Head]:
    """By id, of rules that were read."""
    found: dict[str, list[tuple[Rank, Head]]] = {}
    for rule in rules:
        found.setdefault(rule.rule_id, []).append(head_of(rule))
    return {rule_id: head_of_versions(each) for rule_id, each in found.items()}


def _key_fields(given: Any) -> tuple[str, ...]:
    keys = [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return tuple(key for key in keys if isinstance(key, str))


def way_of(name: str, heads: Mapping[str, Head]) -> list[str]:
    """From ``name`` down to the stream that it comes from: what is read one after the other.

    It ends at the first name that comes again, or that there is not.
    """
    found = [name]
    while (rule_id := rule_of(found[-1])) is not None and rule_id in heads:
        found.append(heads[rule_id].source_topic)
        if found[-1] in found[:-1]:
            break
    return found


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

    def finding(self, name: str) -> Finding | None:
        """Why ``name`` cannot be read; None where it can."""
        way = way_of(name, self.heads)
        if way[-1] in self.streams:
            return None
        path, last = ("source_topic",), way[-1]
        if last in way[:-1]:
            ring = [*way[way.index(last) :]] if last == name else way
            return Finding(path, " reads ".join(ring), "rules that do not read their own hits")
        rule_id = rule_of(last)
        if rule_id is not None:
            hint = nearest(rule_id, self.heads) or f"it may stand in any file beside this one: {one_of(self.heads)}"
            return Finding(path, shown(last), "rule: and the id of a rule", hint)
        expected = f"the name of a stream: {one_of(self.streams) or 'there is none'}"
        return Finding(path, shown(last), expected, nearest(last, self.streams))

    def base(self, name: str) -> str:
        """The stream whose records are hit in the end. Raises KeyError where ``name`` cannot be read."""
        base = way_of(name, self.heads)[-1]
        if base not in self.streams:
            raise KeyError(name)
        return base

    def level(self, name: str) -> int:
        """1 for a stream, 2 for the hits of a rule that reads one, and so on."""
        return len(way_of(name, self.heads))

    def _spec(self, name: str) -> StreamSpec:
        if name in self.streams:
            return self.streams[name]
        self.base(name)
        head = self.heads[name.removeprefix(RULE)]
        read = self[head.source_topic]
        single = {field: spec for field, spec in read.columns.items() if not spec.is_list}
        fields = _nested({field: str(spec) for field, spec in single.items() if not _of_hit(field)})
        named = single if self.any_key else head.key_fields
        keys = {field: f"{single[field].kind}?" for field in named if field in single and not _of_hit(field)}
        fields[HIT] = {**HIT_FIELDS, "key": _nested(keys)} if keys else dict(HIT_FIELDS)
        return StreamSpec.model_validate({**read.model_dump(mode="json", by_alias=True), "fields": fields})


def _of_hit(field: str) -> bool:
    return field.startswith(f"{HIT}.")


def _nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """Fields by dotted name as a stream's file has them."""
    nested: dict[str, Any] = {}
    for name, kind in flat.items():
        *outer, last = name.split(".")
        inside = nested
        for part in outer:
            inside = inside.setdefault(part, {})
        inside[last] = kind
    return nested
