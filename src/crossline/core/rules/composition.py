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
    """By id the heads of rules as they are written, where they have any; of several versions of one the last."""
    heads: dict[str, Head] = {}
    for body in bodies:
        rule_id, source = (body.get("rule_id"), body.get("source_topic")) if isinstance(body, dict) else (None, None)
        if isinstance(rule_id, str) and isinstance(source, str):
            heads[rule_id] = Head(source, _key_fields(body.get("group_by")))
    return heads


class _Reads(Protocol):
    """A rule, as far as it matters here."""

    @property
    def source_topic(self) -> str: ...


def head_of(rule: _Reads) -> Head:
    """Of a rule that was read."""
    return Head(rule.source_topic, _key_fields(getattr(rule, "group_by", None)))


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

    Iteration gives the streams alone.
    """

    streams: Mapping[str, StreamSpec]
    heads: Mapping[str, Head]

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
        fields = _nested({field: str(spec) for field, spec in single.items() if not field.startswith(f"{HIT}.")})
        keys = {field: f"{single[field].kind}?" for field in head.key_fields if field in single}
        fields[HIT] = {**HIT_FIELDS, "key": _nested(keys)} if keys else dict(HIT_FIELDS)
        return StreamSpec.model_validate({**read.model_dump(mode="json", by_alias=True), "fields": fields})


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
