"""Rules read from text: each by itself, with all that is wrong with it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crossline.basics.conditions.tree import leaves
from crossline.basics.streams.inputs import rule_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding, Path, nearest, one_of, shown
from crossline.basics.texts.report import Report
from crossline.basics.texts.validation import findings_from_validation, is_model
from crossline.basics.texts.yamltext import VALUES_MAX, Document, load_yaml, measure
from crossline.basics.times import INSTANT_FORM, YEAR_1_MS, YEAR_10000_MS
from crossline.rules.base import Envelope, Rule
from crossline.rules.composition import Sources, heads_of
from crossline.rules.figure_checks import is_shared
from crossline.rules.registry import find_rule_type, rule_class, rule_types

# Bounds on what a person writes: each version of a rule is a line of the rule log, and is judged by every worker.
RULES_MAX = 20_000
RULE_SIZE_MAX = 256 * 1024
CONDITIONS_MAX = 1_000
ATTACHED_TEXT_MAX = 5_592_408  # 4 MiB in base64
_LIST_HINT = "a file holds one rule, or a list of rules without a name above it"


@dataclass(frozen=True, slots=True)
class Defined:
    """A rule as it is written, with the definitions of the figures that it names, and what is wrong with these names.

    ``unready``: why a rule that is not published yet may not name one. ``where``: by their names in it, their places.
    """

    data: Any
    findings: Sequence[Finding] = ()
    unready: Sequence[Finding] = ()
    where: Mapping[str, str] = field(default_factory=dict)


NOT_DEFINED = Defined(None)


@dataclass(frozen=True, slots=True)
class LoadedRule:
    """A rule and where it was written: the file, its line (from 1), and the path in the file's data."""

    rule: Rule
    source: str
    line: int
    path: Path
    defined: Defined = NOT_DEFINED


# The bytes of the file that a rule names, or what is wrong with it.
Attach = Callable[[str], bytes | Finding]
Define = Callable[[Any], Defined]


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
    define: Define = Defined,
) -> list[LoadedRule]:
    """As ``load_rules_text``, of a text that is read already. Shared figures among the rules are passed over.

    ``attach``: reads the files that rules name; ``define``: knows the figures. Whatever a check of one rule raises it
    may not refuses that rule at its line; the others are checked too.
    """
    report = Report(document)
    bodies = [(path, data) for path, data in placed_bodies(document.data) if not is_shared(data)]
    if streams is not None:
        streams = Sources.of(streams, heads_of(define(data).data for data in bodies_of(document)))
    loaded: list[LoadedRule] = []
    first_at: dict[tuple[str, int], LoadedRule] = {}
    for number, (path, written) in enumerate(bodies, 1):
        if number > RULES_MAX:
            report.add(path, f"more than {RULES_MAX:,} rules", "a smaller file, and the others in one of their own")
            break
        try:
            defined = define(written)
            rule, findings = _read_bounded(defined.data, streams, lists, sink_topics, attach)
            findings = [*defined.findings, *_undefined(defined, findings)]
            if rule is not None and not defined.findings:
                item = LoadedRule(rule, document.source, document.position(path)[0], path, defined)
                findings = _clash(first_at.setdefault((rule.rule_id, rule.version), item), item)
                loaded.append(item)
            for finding in findings:
                report.take(finding, path)
        except Exception as error:  # noqa: BLE001 - a fault in a check is reported as such, and refuses one rule
            report.fault(path, error)
    report.raise_if_any()
    return loaded


def _undefined(defined: Defined, findings: Iterable[Finding]) -> Iterator[Finding]:
    """``findings`` but for those of figures that are not known."""
    return (each for each in findings if each.path[:2] not in {known.path[:2] for known in defined.findings})


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
    written, files = _apart(data)
    large = next((name for name, text in files.items() if len(text) > ATTACHED_TEXT_MAX), None)
    if large is not None:
        found = f"{len(files[large]):,} bytes in base64"
        return None, [Finding((large,), found, f"at most {ATTACHED_TEXT_MAX:,}, which are 4 MiB")]
    if measure(written, VALUES_MAX, RULE_SIZE_MAX)[1] > RULE_SIZE_MAX:
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
    return (data for _, data in placed_bodies(document.data)[:RULES_MAX] if not is_shared(data))


def _apart(data: Any) -> tuple[Any, dict[str, str]]:
    """What a person wrote of a rule, and the bytes of files that go with it, as text: in a topic there are no files."""
    named = data.get("rule_type") if isinstance(data, dict) else None
    cls = rule_class(named)
    if cls is None:
        return data, {}
    files = {name: data[name] for name in cls.files.values() if isinstance(data.get(name), str)}
    return {name: value for name, value in data.items() if name not in files}, files


def _with_files(data: Any, attach: Attach | None) -> tuple[Any, list[Finding]]:
    """``data`` with the bytes of the files that a rule of its type names, and what is wrong with these."""
    cls = rule_class(data.get("rule_type")) if isinstance(data, dict) and attach is not None else None
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


def placed_bodies(data: Any) -> list[tuple[Path, Any]]:
    """What stands in a text one by one, each with where: one body, a list, or several documents of either."""
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
        # The fields that every rule has can be checked for any type.
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
    """The rule as far as it could be read, so that all that is wrong is reported at once; other fields are None."""
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
    whole = {name for name, info in cls.model_fields.items() if is_model(info.annotation)}  # strict by themselves
    return {
        name: TypeAdapter(kind, config=None if name in whole else ConfigDict(strict=True))
        for name, kind in kinds.items()
    }


def _stream_findings(
    rule: Rule, streams: Mapping[str, StreamSpec] | None, lists: Collection[str] | None
) -> list[Finding]:
    judged = rule.reading.judged[0]
    if streams is None or judged is None:
        return []
    known = Sources.of(streams, {})
    missing = [_placed(rule, each) for each in known.findings(rule.reading)]
    named = {judged, None}  # none where a type declares in another way what it reads
    if not missing and rule_of(judged) is not None and rule.source_topic not in {*named, known.base(judged)}:
        expected = f"{known.base(judged)}, whose records {judged} is about"
        missing = [Finding(("source_topic",), shown(rule.source_topic), expected)]
    return missing or rule.stream_findings(rule.reading.judges, known.of_reading(rule.reading), lists)


def _placed(rule: Rule, found: Finding) -> Finding:
    """At the place where the rule names the source that is wrong, as it is written there."""
    source = str(found.path[0])
    path = rule.place_of_source(source)
    written: Any = rule
    for step in path:
        written = getattr(written, step, None) if isinstance(step, str) else written[step]
    if written is not None and written == rule_of(source) and found.found == shown(source):
        return replace(found, path=path, found=shown(written), expected="the id of a rule")
    return replace(found, path=path)


def _topic_findings(rule: Rule, sink_topics: Collection[str] | None) -> list[Finding]:
    """A topic that no sink has. A version that is to send nothing any more may keep it, so that it can be ended."""
    topic = rule.sink_topic
    if sink_topics is None or topic is None or topic in sink_topics or rule.status in {"paused", "retired"}:
        return []
    hint = nearest(topic, sink_topics) or "name it under topics of the pipeline's Kafka sink, and create it"
    return [Finding(("sink_topic",), shown(topic), f"a topic of the sinks: {one_of(sorted(sink_topics))}", hint)]
