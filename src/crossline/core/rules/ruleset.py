"""Rules read from text, and the set of rule versions that judges, each with its interval of the ingest clock."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossline.core.errors import UsageError
from crossline.core.rules.base import Rule
from crossline.core.rules.registry import find_rule_type
from crossline.core.rules.report import Finding, Path, Report, findings_from_validation, nearest, one_of, shown
from crossline.core.schema import StreamSpec
from crossline.core.yamltext import load_yaml

BEGINNING_MS = -(2**62)
FOREVER_MS = 2**62
_LIST_HINT = "a file holds one rule, or a list of rules without a name above it"

Kind = Literal["active", "shadow"]


@dataclass(frozen=True, slots=True)
class LoadedRule:
    """A rule and where it was written."""

    rule: Rule
    source: str
    line: int


def load_rules_text(
    text: str, source: str, streams: Mapping[str, StreamSpec] | None = None, lists: Collection[str] | None = None
) -> list[LoadedRule]:
    """The rules of a YAML or JSON text: one rule, or a list, or several documents.

    With ``streams`` (and the names of ``lists``) fields and types are checked too. Raises RefusedError with all that is
    wrong in the text.
    """
    document = load_yaml(text, source)
    report = Report(document)
    loaded: list[LoadedRule] = []
    first_at: dict[tuple[str, int], LoadedRule] = {}
    for path, data in _bodies(document.data):
        rule, findings = read_rule(data, streams, lists)
        for finding in findings:
            report.take(finding, path)
        if rule is None:
            continue
        item = LoadedRule(rule, source, document.position(path)[0])
        first = first_at.setdefault((rule.rule_id, rule.version), item)
        if first.rule.body_digest() != rule.body_digest():
            where = f"its body of line {first.line}, or a new version"
            report.add((*path, "version"), f"version {rule.version} of {rule.rule_id} with another body", where)
        loaded.append(item)
    report.raise_if_any()
    return loaded


def _bodies(data: Any) -> list[tuple[Path, Any]]:
    if not isinstance(data, list):
        return [] if data is None else [((), data)]
    bodies: list[tuple[Path, Any]] = []
    for number, item in enumerate(data):
        # Several documents of lists are a list of lists.
        if isinstance(item, list):
            bodies += [((number, inner), each) for inner, each in enumerate(item)]
        elif item is not None:
            bodies.append(((number,), item))
    return bodies


def read_rule(
    data: Any, streams: Mapping[str, StreamSpec] | None = None, lists: Collection[str] | None = None
) -> tuple[Rule | None, list[Finding]]:
    """The rule that ``data`` writes and what is wrong with it; a rule only where nothing is."""
    if not isinstance(data, dict):
        return None, [Finding((), shown(data), "a rule: a mapping of fields to values")]
    cls = find_rule_type(data.get("rule_type"), "rule_type" in data)
    if isinstance(cls, Finding):
        return None, [replace(cls, hint=_LIST_HINT) if isinstance(data.get("rules"), list) else cls]
    try:
        rule = cls.model_validate(data)
        findings: list[Finding] = []
    except ValidationError as error:
        findings = findings_from_validation(error, cls)
        # Errors without a location are of the rule as a whole: every field by itself could be read.
        wrong = {details["loc"][0] for details in error.errors(include_url=False) if details["loc"]}
        rule = _readable_part(cls, data, wrong)
        if wrong:
            findings += _apart_from(findings, rule.findings())
    findings += _apart_from(findings, _stream_findings(rule, streams, lists))
    return (None if findings else rule), findings


def _apart_from(known: list[Finding], more: Iterable[Finding]) -> list[Finding]:
    """``more`` without what concerns a field that is known to be wrong; of conditions, the rule has the good ones."""
    wrong = {finding.path[:1] for finding in known} - {("conditions",)}
    return [finding for finding in more if finding.path[:1] not in wrong]


def _readable_part(cls: type[Rule], data: Mapping[str, Any], wrong: Collection[object]) -> Rule:
    """The rule as far as it could be read, so that all that is wrong is told at once; other fields are None."""
    values: dict[str, Any] = {}
    for name, info in cls.model_fields.items():
        if name in data and name not in wrong:
            kind: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
            values[name] = TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(data[name])
        else:
            values[name] = None if info.is_required() or name in wrong else info.default
    values["conditions"] = data.get("conditions")
    return cls.model_construct(**values)


def _stream_findings(
    rule: Rule, streams: Mapping[str, StreamSpec] | None, lists: Collection[str] | None
) -> list[Finding]:
    name = rule.source_topic
    if streams is None or name is None:
        return []
    if name not in streams:
        expected = f"the name of a stream: {one_of(streams) or 'there is none'}"
        return [Finding(("source_topic",), shown(name), expected, nearest(name, streams))]
    return rule.stream_findings(name, streams[name], lists)


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """A rule in force for records with ``effective_from_ms`` <= ingest time < ``effective_until_ms``.

    ``ended``: for good, by a later version or by retirement; a version that is paused may come back.
    """

    rule: Rule
    effective_from_ms: int = BEGINNING_MS
    effective_until_ms: int = FOREVER_MS
    kind: Kind = "active"
    ended: bool = False


@dataclass(frozen=True)
class RuleSet:
    """The rule versions that judge. Immutable; raises UsageError for one version with two bodies."""

    versions: tuple[RuleVersion, ...] = ()

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

        Versions follow by number, bodies of one version (another status) in the order given. Drafts are left out; a
        paused or retired body ends the one before it and judges nothing.
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
                    kind: Kind = "shadow" if rule.status == "shadow" else "active"
                    kept.append(RuleVersion(rule, from_ms, until_ms, kind, ended))
                # Instants of another stream's clock say nothing: a version ends where its own stream stood.
                elsewhere = rule.status == "retired" and rule.source_topic != later.source_topic
                until_ms, later = from_ms if elsewhere else min(until_ms, from_ms), rule
            versions += reversed(kept)
        return cls(tuple(versions))

    def without_past(self, gone_ms: Mapping[str, int]) -> RuleSet:
        """The set without the versions that ended for good, by stream, before what may still come.

        ``gone_ms``: the ingest time that no record to come is before. A stream without one keeps all.
        """
        kept = {
            (v.rule.rule_id, v.rule.version)
            for v in self.versions
            if not v.ended or v.effective_until_ms > gone_ms.get(v.rule.source_topic, BEGINNING_MS)
        }
        return RuleSet(tuple(v for v in self.versions if (v.rule.rule_id, v.rule.version) in kept))

    def to_json(self) -> bytes:
        """As JSON, the same bytes for the same set; read by ``from_json``."""
        entries = [
            {
                "rule": version.rule.to_json(),
                "from_ms": version.effective_from_ms,
                "until_ms": version.effective_until_ms,
                "kind": version.kind,
                "ended": version.ended,
            }
            for version in self.versions
        ]
        return orjson.dumps(entries, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_json(cls, raw: bytes | str) -> RuleSet:
        """Inverse of ``to_json``. Raises UsageError for what it did not write."""
        versions: list[RuleVersion] = []
        for entry in orjson.loads(raw):
            rule, findings = read_rule(entry["rule"])
            if rule is None:
                raise UsageError("; ".join(f"{finding.path}: found {finding.found}" for finding in findings))
            versions.append(RuleVersion(rule, entry["from_ms"], entry["until_ms"], entry["kind"], entry["ended"]))
        return cls(tuple(versions))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the set, in hex: equal exactly for sets that judge alike."""
        return hashlib.sha256(self.to_json()).hexdigest()
