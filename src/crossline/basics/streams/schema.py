"""stream.yaml: the streams that rules read, their fields, and where id and time stand in a record."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from crossline.basics.fields import FieldKind
from crossline.basics.streams.sensitive import SensitiveField, TokenSettings, sensitive_findings
from crossline.basics.texts.fieldtypes import Duration
from crossline.basics.texts.problems import Finding, Path, RefusedError, nearest, one_of, shown
from crossline.basics.texts.validation import findings_from_validation, refusal, refusals

Format = Literal["json", "avro", "csv", "parquet"]
TimeUnit = Literal["ms", "s", "us", "ns", "iso8601"]

FUTURE_MS = 3_600_000
KINDS: tuple[str, ...] = get_args(FieldKind)
# A stream has a folder of its name in the checkpoint; as with Kafka's topics, these two names are none.
_STREAM_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,249}", re.ASCII)
_CLOCK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_TYPE = re.compile(r"(?P<open>\[?)\s*(?P<kind>[a-z]+)(?P<inner>\??)\s*(?P<close>\]?)(?P<outer>\??)", re.ASCII)
_TYPE_FORM = f"a type ({', '.join(KINDS)}), with ? where it may be missing, [type] for a list, or nested fields"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The type of a field. ``optional``: it may be missing or null. ``is_list``: a list of values of ``kind``.

    ``sensitive``: its values are tokens, and this is the name of all that they may be equal to; empty: they are not.
    ``token_lists``: the lists that have such tokens.
    """

    kind: FieldKind
    optional: bool = False
    is_list: bool = False
    sensitive: str = ""
    token_lists: frozenset[str] = frozenset()

    def __str__(self) -> str:
        text = f"[{self.kind}]" if self.is_list else str(self.kind)
        return text + ("?" if self.optional else "")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class TimeField(_Model):
    """A field that holds an instant, and its unit (epoch numbers, or ISO 8601 text)."""

    field: str
    unit: TimeUnit = "ms"


def check_fields(value: Any) -> Any:
    """``value`` where it maps names of fields to types; raises what pydantic takes for its findings."""
    if not isinstance(value, dict) or not value:
        raise refusal("a mapping of field names to types")
    _, findings = flatten(value)
    if findings:
        raise refusals(findings)
    return value


class TableSpec(_Model):
    """A table whose rows become fields of a stream's records, as it is declared.

    ``key``: by field of the record, the column of the table that it is looked up in. ``fields``: columns and their
    types, nested as those of a stream. ``valid_from``: the column with the ingest time from which a row holds.
    """

    key: dict[str, str]
    fields: Annotated[dict[str, Any], BeforeValidator(check_fields)]
    valid_from: str | None = None

    @cached_property
    def columns(self) -> dict[str, FieldSpec]:
        """Dotted column name -> type, in the order of the file."""
        return flatten(self.fields)[0]


@dataclass(frozen=True, slots=True)
class HeaderSpec:
    """A field that is a header of a message: how that is called, and what its text is read as."""

    header: str
    kind: FieldKind


HEADER_KINDS = ("string", "integer", "number", "boolean")
_HEADER_FORM = f"a type ({', '.join(HEADER_KINDS)}), or {{header: NAME, type: TYPE}}; a message may lack it"


def _header(name: Any, value: Any) -> HeaderSpec | None:
    """None where ``value`` declares no header."""
    given = {"header": name, "type": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not isinstance(given.get("header"), str) or not given["header"]:
        return None
    kind = str(given.get("type", "string")).removesuffix("?")
    return HeaderSpec(given["header"], kind) if kind in HEADER_KINDS and given.keys() <= {"header", "type"} else None  # type: ignore[arg-type]


def _check_headers(value: Any) -> Any:
    if not isinstance(value, dict):
        raise refusal("a mapping of field names to types")
    findings = [
        Finding((name,), shown(name), "a field name without dots")
        if not isinstance(name, str) or not name or "." in name
        else Finding((name,), shown(each), _HEADER_FORM)
        for name, each in value.items()
        if not isinstance(name, str) or not name or "." in name or _header(name, each) is None
    ]
    if findings:
        raise refusals(findings)
    return value


class StreamSpec(_Model):
    """One stream. ``own_columns`` has every field of its records by its dotted name; nested fields are flattened.

    ``columns`` has those of tables too, each as ``TABLE.COLUMN``, and those of ``headers`` of messages, which may be
    missing. ``clocks``: by name, other times of a record that rules may go by. ``future_bound``: how far ahead
    of its being there to be read a record may be dated, in milliseconds. ``enrich``: tables by name, which a pipeline
    file declares. ``sensitive``: by dotted name, the fields whose values are tokens; ``tokens``: where their keys are,
    which the file declares for all its streams.
    """

    format: Format = "json"
    id: str
    event_time: TimeField
    ingest_time: TimeField | None = None
    clocks: dict[str, TimeField] = {}
    future_bound: Duration = FUTURE_MS
    fields: Annotated[dict[str, Any], BeforeValidator(check_fields)]
    headers: Annotated[dict[str, Any], BeforeValidator(_check_headers)] = {}
    enrich: dict[str, TableSpec] = {}
    # What no stream of most files has is not written into their checkpoints either.
    sensitive: dict[str, SensitiveField] = Field(default={}, exclude_if=lambda fields: not fields)
    tokens: TokenSettings | None = Field(default=None, exclude_if=lambda settings: settings is None)

    @cached_property
    def header_fields(self) -> dict[str, HeaderSpec]:
        """By name, the fields that are headers of messages."""
        return {name: each for name, value in self.headers.items() if (each := _header(name, value)) is not None}

    @cached_property
    def raw_columns(self) -> dict[str, FieldSpec]:
        """Dotted field name -> type of the value in the source, in the order of the file."""
        return flatten(self.fields)[0]

    @cached_property
    def own_columns(self) -> dict[str, FieldSpec]:
        """As ``raw_columns``, behind the decoder: a sensitive field is a string, its token."""
        return {
            name: replace(each, kind="string", **self._tokens_of(name)) if name in self.sensitive else each
            for name, each in self.raw_columns.items()
        }

    def _tokens_of(self, name: str) -> dict[str, Any]:
        domain, person = self.domain_of(name), self.sensitive[name].person
        if person is not None:
            return {"sensitive": f"{domain} of one {self.domain_of(person)}"}
        lists = self.tokens.lists if self.tokens is not None else {}
        return {"sensitive": domain, "token_lists": frozenset(each for each, of in lists.items() if of == domain)}

    def domain_of(self, name: str) -> str:
        """The domain of a field: values are the same person, or have the same token, within one."""
        declared = self.sensitive.get(name)
        return (declared.domain if declared is not None else None) or name

    @cached_property
    def columns(self) -> dict[str, FieldSpec]:
        """As ``own_columns``, and behind them the fields that headers and tables add."""
        added = {
            f"{table}.{name}": FieldSpec(field.kind, True, field.is_list)
            for table, spec in self.enrich.items()
            for name, field in spec.columns.items()
        }
        headers = {name: FieldSpec(each.kind, True) for name, each in self.header_fields.items()}
        return {**self.own_columns, **headers, **added}

    @model_validator(mode="after")
    def _check(self) -> StreamSpec:
        findings = list(self._findings())
        if findings:
            raise refusals(findings)
        return self

    def _findings(self) -> Iterable[Finding]:
        roles: list[tuple[Path, str, TimeField | None]] = [
            (("id",), self.id, None),
            (("event_time", "field"), self.event_time.field, self.event_time),
        ]
        if self.ingest_time is not None:
            roles.append((("ingest_time", "field"), self.ingest_time.field, self.ingest_time))
        for clock, time in self.clocks.items():
            roles.append((("clocks", clock, "field"), time.field, time))
        if self.sensitive:
            named = {name: "id" if time is None else "time" for _, name, time in roles}
            yield from sensitive_findings(self.sensitive, self.raw_columns, named)
        yield from self._clock_findings()
        taken = {name.partition(".")[0] for name in self.raw_columns}
        twice = [
            Finding(("headers", name), shown(name), "a name that no field has", f"{{other_name: {{header: {name}}}}}")
            for name in self.header_fields
            if name in taken
        ]
        yield from twice
        yield from (found for path, name, time in roles if (found := self._role(path, name, time)))

    def _clock_findings(self) -> Iterator[Finding]:
        """Names of clocks that are also those of other times or fields."""
        by_field: dict[str, str] = {}
        for clock, time in self.clocks.items():
            first = by_field.setdefault(time.field, clock)
            if first != clock:
                yield Finding(
                    ("clocks", clock, "field"), shown(time.field), f"another field than that of clock {first}"
                )
            if not _CLOCK_NAME.fullmatch(clock):
                yield Finding(("clocks", clock), shown(clock), "a name of letters, digits, and . _ -, at most 64")
            elif clock in self.raw_columns and clock != time.field:
                expected = f"a name that no other field has: {clock} is one of its own, and not {time.field}"
                yield Finding(("clocks", clock), shown(clock), expected)
            elif self.event_time.field in {clock, time.field}:
                expected = "another time than the event time, which rules go by anyway"
                yield Finding(("clocks", clock, "field"), shown(time.field), expected)

    def _role(self, path: Path, name: str, time: TimeField | None) -> Finding | None:
        spec = self.raw_columns.get(name)
        if spec is None:
            return Finding(path, shown(name), "a field of this stream", nearest(name, self.raw_columns))
        wanted: tuple[str, ...] = ("string", "integer")
        if time is not None:
            wanted = ("string", "timestamp") if time.unit == "iso8601" else ("integer", "number", "timestamp")
        if spec.is_list or spec.kind not in wanted:
            unit = f" (unit {time.unit})" if time else ""
            return Finding(path, f"{name} of type {spec}", f"a field of type {' or '.join(wanted)}{unit}")
        if spec.optional:
            return Finding(path, f"{name} of type {spec}", f"a field that every record has: {name}: {spec.kind}")
        return None


def _check_streams(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise refusal("a mapping of stream names to streams")
    findings = [
        Finding((name,), shown(name), "a stream name of letters, digits, and . _ -, at most 249; not . or ..")
        for name in value
        if not _STREAM_NAME.fullmatch(name)
    ]
    hint = "write it in pipeline.yaml: enrich: {TABLE: {kind: files, path: …, key: …, fields: …}}"
    findings += [
        Finding((name, "enrich"), "tables of one stream", "tables in the pipeline file, for all its streams", hint)
        for name, spec in value.items()
        if isinstance(spec, dict) and "enrich" in spec
    ]
    findings += [
        Finding((name, "tokens"), "tokens of one stream", "tokens beside streams, for all of the file")
        for name, spec in value.items()
        if isinstance(spec, dict) and "tokens" in spec
    ]
    if findings:
        raise refusals(findings)
    return value


class StreamsFile(_Model):
    """The file stream.yaml: streams by the name that rules use as ``source_topic``."""

    schema_version: Literal[1]
    streams: Annotated[dict[str, StreamSpec], BeforeValidator(_check_streams)]
    tokens: TokenSettings = Field(default_factory=TokenSettings)

    @model_validator(mode="after")
    def _check(self) -> StreamsFile:
        named = {
            spec.domain_of(name)
            for spec in self.streams.values()
            for name, each in spec.sensitive.items()
            if each.person is None
        }
        findings = [
            Finding(("tokens", "lists", name), shown(domain), f"a domain of sensitive fields: {one_of(sorted(named))}")
            for name, domain in self.tokens.lists.items()
            if domain not in named
        ]
        if findings:
            raise refusals(findings)
        return self

    def specs(self, folder: str) -> dict[str, StreamSpec]:
        """The streams by name. ``folder``: that of the file, from which the path of the token store is relative."""
        if not any(spec.sensitive for spec in self.streams.values()):
            return self.streams
        tokens = self.tokens.in_folder(folder)
        return {
            name: spec.model_copy(update={"tokens": tokens}) if spec.sensitive else spec
            for name, spec in self.streams.items()
        }


def load_streams(text: str, source: str) -> dict[str, StreamSpec]:
    """The streams of a stream.yaml, by name. Raises RefusedError with everything that is wrong with it."""
    from crossline.basics.texts.report import place  # noqa: PLC0415 - for who reads the file
    from crossline.basics.texts.yamltext import load_yaml  # noqa: PLC0415 - as above

    document = load_yaml(text, source)
    try:
        return StreamsFile.model_validate(document.data).specs(posixpath.dirname(source))
    except ValidationError as error:
        problems = [place(finding, document) for finding in findings_from_validation(error, StreamsFile)]
        raise RefusedError(sorted(problems, key=lambda problem: problem.line)) from None


def flatten(fields: Mapping[str, Any]) -> tuple[dict[str, FieldSpec], list[Finding]]:
    """The nested ``fields`` by dotted name, and what is wrong with them."""
    columns: dict[str, FieldSpec] = {}
    findings: list[Finding] = []
    _flatten(fields, (), columns, findings)
    return columns, findings


def _flatten(fields: Mapping[str, Any], path: Path, columns: dict[str, FieldSpec], findings: list[Finding]) -> None:
    for name, value in fields.items():
        here = (*path, name)
        if not name or "." in name:
            findings.append(Finding(here, shown(name), "a field name without dots", "nest it: {outer: {inner: type}}"))
        elif isinstance(value, dict) and value:
            _flatten(value, here, columns, findings)
        else:
            spec = _field_spec(value)
            if isinstance(spec, FieldSpec):
                columns[".".join(map(str, here))] = spec
            else:
                findings.append(Finding(here, shown(value), _TYPE_FORM, spec))


def _field_spec(value: Any) -> FieldSpec | str | None:
    """The type that ``value`` writes; else a hint, or None where there is none."""
    if isinstance(value, list):
        if len(value) != 1 or not isinstance(value[0], str):
            return "a list of values is written [type]; lists of mappings are not read"
        value = f"[{value[0]}]"
    parts = _TYPE.fullmatch(value) if isinstance(value, str) else None
    if parts is None or bool(parts["open"]) != bool(parts["close"]):
        return None
    kind = parts["kind"]
    if kind not in KINDS:
        return _SYNONYMS.get(kind) or nearest(kind, KINDS)
    return FieldSpec(kind, bool(parts["inner"] or parts["outer"]), bool(parts["open"]))  # type: ignore[arg-type]


_SYNONYMS = {
    **dict.fromkeys(("int", "long", "bigint", "short", "int64", "int32"), "did you mean integer?"),
    **dict.fromkeys(("float", "double", "decimal", "real"), "did you mean number?"),
    **dict.fromkeys(("str", "text", "varchar", "uuid"), "did you mean string?"),
    **dict.fromkeys(("datetime", "date", "time", "instant"), "did you mean timestamp?"),
}


def check_field(name: str, columns: Mapping[str, FieldSpec], stream: str, path: Path) -> Finding | None:
    """A finding where ``name`` is no field of the stream named ``stream``."""
    if name in columns:
        return None
    inner = [known for known in columns if known.startswith(f"{name}.")]
    hint = f"it holds {', '.join(inner[:4])}: name one of them" if inner else nearest(name, columns)
    return Finding(path, shown(name), f"a field of stream {stream}", hint or f"its fields: {one_of(columns, 30)}")
