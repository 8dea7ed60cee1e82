"""The set of rule versions that judges, each with its interval of the ingest clock."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import orjson

from crossline.basics.errors import UsageError
from crossline.basics.fields import KeyValue
from crossline.basics.share import SLOTS, Slots, slots_of
from crossline.basics.streams.inputs import RULE
from crossline.basics.texts.problems import Finding
from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.rules.base import Defaults, Rule
from crossline.rules.composition import Head, heads_of_rules, way_of
from crossline.rules.holds.placed_hold import PlacedHold, PlacedHolds
from crossline.rules.holds.release import Release, Releases

Kind = Literal["active", "shadow"]
ReadRule = Callable[[Any], tuple[Rule | None, Sequence[Finding]]]


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """A rule in force for records with ``effective_from_ms`` <= ingest time < ``effective_until_ms``.

    ``ended``: for good, by a later version or by retirement; a version that is paused may come back. ``slots``: of the
    keys that it is active for, where another version has the others (None: of all). ``outside``: that it judges one of
    these others; it is the same version then, of kind shadow.
    """

    rule: Rule
    effective_from_ms: int = BEGINNING_MS
    effective_until_ms: int = FOREVER_MS
    kind: Kind = "active"
    ended: bool = False
    slots: Slots | None = None
    outside: bool = False
    _other: RuleVersion | None = field(default=None, init=False, repr=False, compare=False)

    def of_key(self, key: Mapping[str, KeyValue]) -> RuleVersion:
        """As it judges a key: of kind shadow where another version has that."""
        if self.slots is None or self.slots.has(self.rule.rule_id, key) is not self.outside:
            return self
        return self._elsewhere()

    def _elsewhere(self) -> RuleVersion:
        """The same for the other keys, made once: judging compares versions by object identity."""
        if self._other is None:
            kind: Kind = "active" if self.outside else "shadow"
            other = replace(self, kind=kind, outside=not self.outside)
            object.__setattr__(other, "_other", self)
            object.__setattr__(self, "_other", other)
        return self._other  # type: ignore[return-value]  # it was made above

    @property
    def endless(self) -> bool:
        """Whether nothing was published that ends it."""
        return self.effective_until_ms == FOREVER_MS


@dataclass(frozen=True)
class RuleSet:
    """The rule versions that judge. Immutable; raises UsageError for one version with two bodies.

    ``releases``: of what their alerts hold. ``placed``: what people hold besides.
    """

    versions: tuple[RuleVersion, ...] = ()
    releases: tuple[Release, ...] = ()
    placed: tuple[PlacedHold, ...] = ()

    def __post_init__(self) -> None:
        digests: dict[tuple[str, int], str] = {}
        for version in self.versions:
            rule = version.rule
            digest = rule.body_digest()
            if digests.setdefault((rule.rule_id, rule.version), digest) != digest:
                raise UsageError(
                    f"rule {rule.rule_id}: version {rule.version} stands there with two bodies; give one a new version"
                )

    def __len__(self) -> int:
        return len(self.versions)

    @classmethod
    def from_rules(cls, rules: Iterable[Rule]) -> RuleSet:
        """Each rule from its ``effective_from`` (none: the beginning) until the next version of its id.

        Versions follow by number, bodies of one version (another status or share) in the order given. Drafts are left
        out; a paused or retired body ends the one before it and judges nothing. A version with a share leaves the other
        keys to the version before it, and all of them while it is shadow or paused.
        """
        by_id: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.status != "draft":
                by_id.setdefault(rule.rule_id, []).append(rule)
        versions: list[RuleVersion] = []
        for bodies in by_id.values():
            bodies.sort(key=lambda rule: rule.version)
            until_ms, ended, later = FOREVER_MS, False, bodies[-1]
            kept: list[RuleVersion] = []
            for rule in reversed(bodies):
                from_ms = BEGINNING_MS if rule.effective_from is None else rule.effective_from
                ended |= rule.status == "retired" or rule.version < later.version
                if rule.status in {"active", "shadow"} and from_ms < until_ms:
                    kept.append(RuleVersion(rule, from_ms, until_ms, _kind(rule), ended, _slots(rule)))
                # Instants of another stream's clock say nothing: a version ends where its own stream stood.
                elsewhere = rule.status == "retired" and rule.source_topic != later.source_topic
                until_ms, later = from_ms if elsewhere else min(until_ms, from_ms), rule
            versions += _with_those_before(bodies, kept[::-1])
        return cls(tuple(versions))

    @cached_property
    def released(self) -> Releases:
        """The releases, to be looked up."""
        return Releases(self.releases)

    @cached_property
    def held(self) -> PlacedHolds:
        """What people hold, to be looked up."""
        return PlacedHolds(self.placed)

    @cached_property
    def heads(self) -> dict[str, Head]:
        """What rules that read hits must know of each rule."""
        return heads_of_rules(version.rule for version in self.versions)

    def base(self, rule: Rule) -> str:
        """The stream whose records are hit in the end: that which ``rule`` reads, itself or through other rules."""
        return way_of(rule.reading.judged[0], self.heads)[-1]

    def without_past(self, gone_ms: Mapping[str, int], lingers_ms: Callable[[Rule], int] = lambda _: 0) -> RuleSet:
        """The set without the versions that ended for good, by stream, before what may still come.

        ``gone_ms``: the ingest time that no record to come is before. A stream without one keeps all. ``lingers_ms``:
        for how much longer there may be hits at records that a version judged.
        """
        kept = {
            (v.rule.rule_id, v.rule.version)
            for v in self.versions
            if not v.ended or v.effective_until_ms + lingers_ms(v.rule) > gone_ms.get(self.base(v.rule), BEGINNING_MS)
        }
        left = tuple(v for v in self.versions if (v.rule.rule_id, v.rule.version) in kept)
        releases = tuple(each for each in self.releases if self._lasts(each, left, gone_ms, lingers_ms))
        return RuleSet(left, releases, tuple(each for each in self.placed if not each.outlived(gone_ms)))

    def _lasts(
        self,
        release: Release,
        left: Iterable[RuleVersion],
        gone_ms: Mapping[str, int],
        lingers_ms: Callable[[Rule], int],
    ) -> bool:
        """Whether alerts of before ``release`` may still hold a record: as long as a version that ended then would."""
        mine = (v.rule for v in left if v.rule.rule_id == release.rule_id)
        return any(release.from_ms + lingers_ms(r) > gone_ms.get(self.base(r), BEGINNING_MS) for r in mine)

    def again_ms(self, defaults: Defaults) -> dict[str, int]:
        """How late a record may be that has those of a rule judged again; of the rules of which there are such.

        Those that read the hits of one are such rules too.
        """
        mine = [v.rule for v in self.versions if v.rule.judges_again]
        late_ms = max((rule.lateness(defaults).allowed_ms or 0 for rule in mine), default=0)
        again, more = {rule.rule_id for rule in mine}, bool(mine)
        while more:
            reads = {f"{RULE}{rule_id}" for rule_id in again}
            readers = {rule_id for rule_id, head in self.heads.items() if reads & {*head.reading.sources}}
            again, more = again | readers, bool(readers - again)
        return dict.fromkeys(again, late_ms)

    def to_json(self) -> bytes:
        """As JSON, the same bytes for the same set; read by ``from_json``."""
        entries = [
            {
                "rule": version.rule.to_json(),
                "from_ms": version.effective_from_ms,
                "until_ms": version.effective_until_ms,
                "kind": version.kind,
                "ended": version.ended,
                **({} if version.slots is None else {"slots": [version.slots.first, version.slots.end]}),
            }
            for version in self.versions
        ]
        entries += [*(each.to_json() for each in self.releases), *(each.to_json() for each in self.placed)]
        return orjson.dumps(entries)  # not sorted: a key has its fields in the order in which a mapping names them

    @classmethod
    def from_json(cls, raw: bytes | str, read: ReadRule | None = None) -> RuleSet:
        """Inverse of ``to_json``. Raises UsageError for what it did not write. ``read``: one rule, from plain JSON."""
        if read is None:
            from crossline.rules.rule_reader import read_rule  # noqa: PLC0415 - loads all that reads texts

            read = read_rule

        versions: list[RuleVersion] = []
        releases: list[Release] = []
        placed: list[PlacedHold] = []
        for entry in orjson.loads(raw):
            if "released" in entry:
                releases.append(Release.from_json(entry))
                continue
            if "placed" in entry:
                placed.append(PlacedHold.from_json(entry))
                continue
            rule, findings = read(entry["rule"])
            if rule is None:
                raise UsageError("; ".join(f"{finding.path}: found {finding.found}" for finding in findings))
            slots = Slots(*entry["slots"]) if "slots" in entry else None
            given = (entry["from_ms"], entry["until_ms"], entry["kind"], entry["ended"], slots)
            versions.append(RuleVersion(rule, *given))
        return cls(tuple(versions), tuple(releases), tuple(placed))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the set, in hex: equal exactly for sets that judge alike."""
        return hashlib.sha256(self.to_json()).hexdigest()


def _kind(rule: Rule) -> Kind:
    return "shadow" if rule.status == "shadow" else "active"


def _slots(rule: Rule) -> Slots | None:
    """Those that an active rule with a share has; None: all, or none of its own."""
    if rule.share is None or rule.status != "active" or slots_of(rule.share) == SLOTS:
        return None
    return Slots(0, slots_of(rule.share))


def _leaves(rule: Rule) -> Slots | None:
    """The keys that a version leaves to the one before it; None: it replaces that."""
    if rule.share is None or rule.status == "retired":
        return None
    mine = slots_of(rule.share) if rule.status == "active" else 0
    return None if mine == SLOTS else Slots(mine, SLOTS)


def _with_those_before(bodies: Sequence[Rule], kept: Sequence[RuleVersion]) -> list[RuleVersion]:
    """``kept``, and what goes on of versions that later ones left keys to; each version's in the order of time.

    ``bodies``: of one rule, in order. The version before is the last one that replaced all before it.
    """
    going: list[RuleVersion] = []
    for number, rule in enumerate(bodies):
        left = _leaves(rule)
        before = next((each for each in bodies[number::-1] if each.version < rule.version and not _leaves(each)), None)
        if left is None or before is None or before.status not in {"active", "shadow"}:
            continue
        from_ms = BEGINNING_MS if rule.effective_from is None else rule.effective_from
        ends = (BEGINNING_MS if each.effective_from is None else each.effective_from for each in bodies[number + 1 :])
        until_ms = min(ends, default=FOREVER_MS)
        if from_ms < until_ms:
            slots = left if left.first and before.status == "active" else None
            going.append(RuleVersion(before, from_ms, until_ms, _kind(before), slots=slots))
    if not going:
        return list(kept)
    return sorted([*kept, *going], key=lambda each: (each.rule.version, each.effective_from_ms))
