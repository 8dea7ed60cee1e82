"""Rules read from text, and the set of rule versions that judges, each with its interval of the ingest clock."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Annotated, Any, Literal

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossline.core.basics.errors import UsageError
from crossline.core.basics.times import BEGINNING_MS, FOREVER_MS, INSTANT_FORM, YEAR_1_MS, YEAR_10000_MS
from crossline.core.conditions.tree import leaves
from crossline.core.rules.base import Envelope, Rule
from crossline.core.rules.composition import Head, Sources, heads_of, heads_of_rules, way_of
from crossline.core.rules.registry import find_rule_type, rule_types
from crossline.core.streams.schema import StreamSpec
from crossline.core.texts.problems import Finding, Path, nearest, one_of, shown
from crossline.core.texts.report import Report
from crossline.core.texts.validation import findings_from_validation
from crossline.core.texts.yamltext import VALUES_MAX, Document, load_yaml, measure

# Bounds on what a person writes: each version of a rule is a line of the rule log, and is judged by every worker.
RULES_MAX = 20_000
RULE_SIZE_MAX = 256 * 1024
CONDITIONS_MAX = 1_000
_LIST_HINT = "a file holds one rule, or a list of rules without a name above it"

Kind = Literal["active", "shadow"]


@dataclass(frozen=True, slots=True)
class LoadedRule:
    """A rule and where it was written: the file, its line (from 1), and the path in the file's data."""

    rule: Rule
    source: str
    line: int
    path: Path


# The bytes of the file that a rule names, or what is wrong with it.
Attach = Callable[[str], bytes | Finding]


def load_rules_text(
    text: str,
    source: str,
    streams: Mapping[str, StreamSpec] | None = None,
    lists: Collection[str] | None = None,
    sink_topics: Collection[str] | None = None,
) -> list[LoadedRule]:
    """The rules of a YAML or JSON text: one rule, or a list, or several documents.

    With ``streams`` (and the names of ``lists``) fields and types are checked too, with ``sink_topics`` where alerts
    go. Raises RefusedError with all that is wrong in the text.
    """
    return load_rules_document(load_yaml(text, source), streams, lists, sink_topics)


def load_rules_document(
    document: Document,
    streams: Mapping[str, StreamSpec] | None = None,
    lists: Collection[str] | None = None,
    sink_topics: Collection[str] | None = None,
    attach: Attach | None = None,
) -> list[LoadedRule]:
    """As ``load_rules_text``, of a text that is read already. ``attach``: reads the files that rules name.

    Whatever a check of one rule raises it may not refuses that rule at its line; the others are checked too.
    """
    report = Report(document)
    bodies = _bodies(document.data)
    if streams is not None:
        streams = Sources.of(streams, heads_of(bodies_of(document)))
    loaded: list[LoadedRule] = []
    first_at: dict[tuple[str, int], LoadedRule] = {}
    for number, (path, data) in enumerate(bodies, 1):
        if number > RULES_MAX:
            report.add(path, f"more than {RULES_MAX:,} rules", "a smaller file, and the others in one of their own")
            break
        try:
            rule, findings = _read_bounded(data, streams, lists, sink_topics, attach)
            if rule is not None:
                item = LoadedRule(rule, document.source, document.position(path)[0], path)
                findings = _clash(first_at.setdefault((rule.rule_id, rule.version), item), item)
                loaded.append(item)
            for finding in findings:
                report.take(finding, path)
        except Exception as error:  # noqa: BLE001 - a fault in a check is told as such, and harms one rule
            report.fault(path, error)
    report.raise_if_any()
    return loaded


def _clash(first: LoadedRule, item: LoadedRule) -> list[Finding]:
    rule = item.rule
    if first.rule.body_digest() == rule.body_digest():
        return []
    where = f"its body of line {first.line}, or a new version"
    return [Finding(("version",), f"version {rule.version} of {rule.rule_id} with another body", where)]


def _read_bounded(
    data: Any,
    streams: Mapping[str, StreamSpec] | None,
    lists: Collection[str] | None,
    sink_topics: Collection[str] | None,
    attach: Attach | None,
) -> tuple[Rule | None, list[Finding]]:
    """``read_rule`` within the bounds of what is newly written; what a rule log holds already is not held to them."""
    if measure(data, VALUES_MAX, RULE_SIZE_MAX)[1] > RULE_SIZE_MAX:
        found = f"a rule of more than {RULE_SIZE_MAX:,} bytes, with what aliases name written out"
        return None, [Finding((), found, "a smaller rule", "a long list of values has its place in a named list")]
    data, unread = _with_files(data, attach)
    rule, findings = read_rule(data, streams, lists, sink_topics)
    findings = [*unread, *_apart_from(unread, findings)]
    if rule is None or unread:
        return None, findings
    conditions = sum(1 for condition in rule.all_conditions() for _ in leaves(condition.node))
    if conditions > CONDITIONS_MAX:
        findings.append(Finding(("conditions",), f"{conditions:,} conditions", f"at most {CONDITIONS_MAX:,} in a rule"))
    if rule.effective_from is not None and not YEAR_1_MS <= rule.effective_from < YEAR_10000_MS:
        found = f"{rule.effective_from}, outside the years 1 to 9999"
        findings.append(Finding(("effective_from",), found, INSTANT_FORM))
    return (None if findings else rule), findings


def bodies_of(document: Document) -> Iterator[Any]:
    """The rules of a text as they are written, whatever is wrong with them."""
    return (data for _, data in _bodies(document.data)[:RULES_MAX])


def _with_files(data: Any, attach: Attach | None) -> tuple[Any, list[Finding]]:
    """``data`` with the bytes of the files that a rule of its type names, and what is wrong with these."""
    cls = rule_types().get(data.get("rule_type", "")) if isinstance(data, dict) and attach is not None else None
    if cls is None or attach is None:
        return data, []
    found, findings = dict(data), []
    for name, target in cls.files.items():
        if isinstance(data.get(name), str) and target not in data:
            content = attach(data[name])
            if isinstance(content, bytes):
                found[target] = b64encode(content).decode()
            else:
                findings.append(replace(content, path=(name,)))
    return found, findings


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
    data: Any,
    streams: Mapping[str, StreamSpec] | None = None,
    lists: Collection[str] | None = None,
    sink_topics: Collection[str] | None = None,
) -> tuple[Rule | None, list[Finding]]:
    """The rule that ``data`` writes and what is wrong with it; a rule only where nothing is."""
    if not isinstance(data, dict):
        return None, [Finding((), shown(data), "a rule: a mapping of fields to values")]
    cls = find_rule_type(data.get("rule_type"), "rule_type" in data)
    findings: list[Finding] = []
    if isinstance(cls, Finding):
        if isinstance(data.get("rules"), list):
            return None, [replace(cls, hint=_LIST_HINT)]
        # What every rule has can be told of a rule of any type.
        findings, cls, data = [cls], Envelope, _of_the_envelope(data)
    try:
        rule = cls.model_validate(data)
    except ValidationError as error:
        findings += findings_from_validation(error, cls)
        # Errors without a location are of the rule as a whole: every field by itself could be read.
        wrong = {details["loc"][0] for details in error.errors(include_url=False) if details["loc"]}
        rule = _readable_part(cls, data, wrong)
        if wrong:
            findings += _apart_from(findings, rule.findings())
    findings += _apart_from(findings, _stream_findings(rule, streams, lists))
    findings += _apart_from(findings, _topic_findings(rule, sink_topics))
    return (None if findings else rule), findings


def _of_the_envelope(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``data`` that all rules have, and those that are misspelt; the others are those of some type."""
    types = {name for cls in rule_types().values() for name in cls.model_fields}
    absent = [name for name in Envelope.model_fields if name not in data]
    return {
        name: value
        for name, value in data.items()
        if name != "rule_type" and (name in Envelope.model_fields or (name not in types and nearest(name, absent)))
    }


def _apart_from(known: list[Finding], more: Iterable[Finding]) -> list[Finding]:
    """``more`` without what concerns a field that is known to be wrong; of conditions, the rule has the good ones."""
    wrong = {finding.path[:1] for finding in known} - {("conditions",)}
    return [finding for finding in more if finding.path[:1] not in wrong]


def _readable_part(cls: type[Rule], data: Mapping[str, Any], wrong: Collection[object]) -> Rule:
    """The rule as far as it could be read, so that all that is wrong is told at once; other fields are None."""
    values: dict[str, Any] = {}
    readers = _field_readers(cls)
    for name, info in cls.model_fields.items():
        if name in data and name not in wrong:
            values[name] = readers[name].validate_python(data[name])
        else:
            values[name] = None if info.is_required() or name in wrong else info.default
    values["conditions"] = data.get("conditions")
    return cls.model_construct(**values)


@cache
def _field_readers(cls: type[Rule]) -> dict[str, TypeAdapter[Any]]:
    kinds: dict[str, Any] = {
        name: Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        for name, info in cls.model_fields.items()
    }
    return {name: TypeAdapter(kind, config=ConfigDict(strict=True)) for name, kind in kinds.items()}


def _stream_findings(
    rule: Rule, streams: Mapping[str, StreamSpec] | None, lists: Collection[str] | None
) -> list[Finding]:
    name = rule.source_topic
    if streams is None or name is None:
        return []
    known = Sources.of(streams, {})
    missing = known.finding(name)
    return [missing] if missing else rule.stream_findings(name, known[name], lists)


def _topic_findings(rule: Rule, sink_topics: Collection[str] | None) -> list[Finding]:
    """A topic that no sink has. A version that is to send nothing any more may keep it, so that it can be ended."""
    topic = rule.sink_topic
    if sink_topics is None or topic is None or topic in sink_topics or rule.status in {"paused", "retired"}:
        return []
    hint = nearest(topic, sink_topics) or "name it under topics of the pipeline's Kafka sink, and create it"
    return [Finding(("sink_topic",), shown(topic), f"a topic of the sinks: {one_of(sorted(sink_topics))}", hint)]


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

    @cached_property
    def heads(self) -> dict[str, Head]:
        """What rules that read hits must know of each rule."""
        return heads_of_rules(version.rule for version in self.versions)

    def base(self, rule: Rule) -> str:
        """The stream whose records are hit in the end: that which ``rule`` reads, itself or through other rules."""
        return way_of(rule.source_topic, self.heads)[-1]

    def without_past(self, gone_ms: Mapping[str, int]) -> RuleSet:
        """The set without the versions that ended for good, by stream, before what may still come.

        ``gone_ms``: the ingest time that no record to come is before. A stream without one keeps all.
        """
        kept = {
            (v.rule.rule_id, v.rule.version)
            for v in self.versions
            if not v.ended or v.effective_until_ms > gone_ms.get(self.base(v.rule), BEGINNING_MS)
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
