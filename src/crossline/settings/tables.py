"""``enrich:`` of a pipeline file: tables whose rows become fields of the records of its streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from crossline.basics.streams.schema import FieldSpec, StreamSpec, TableSpec, check_fields
from crossline.basics.texts.problems import Finding, Path, nearest, one_of, shown
from crossline.basics.texts.validation import refusal
from crossline.settings.fields import Settings, by_kind
from crossline.settings.sources import TopicPlace

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
KeyFormat = Literal["text", "json"]
_KEY_FORM = "a field of the records, several as a list, or {field: column} where the table calls it otherwise"


def _key(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list):
        names = (
            {name: name for name in names if isinstance(name, str)} if all(isinstance(n, str) for n in names) else None
        )
    if isinstance(names, dict) and names and all(isinstance(x, str) and x for pair in names.items() for x in pair):
        return names
    raise refusal(_KEY_FORM)


class Table(Settings):
    """What all tables have, wherever their rows come from."""

    key: Annotated[dict[str, str], BeforeValidator(_key)] = Field(
        description="The field of the records by which rows are looked up: `account_id`; several as a list; "
        "`{account_id: id}` where the table's column has another name."
    )
    fields: Annotated[dict[str, Any], BeforeValidator(check_fields)] = Field(
        description="The columns that records get, with types as in a stream file; `?` marks what a row may lack."
    )
    valid_from: str | None = Field(
        default=None,
        description="The column with the ingest time from which a row holds, RFC 3339 or epoch milliseconds; a key "
        "may then have several rows. A row without one holds from the beginning.",
    )
    streams: list[str] | None = Field(
        default=None, description="The streams whose records get the fields; by default all that have those of the key."
    )

    @property
    def spec(self) -> TableSpec:
        """As streams know it."""
        return TableSpec(key=self.key, fields=self.fields, valid_from=self.valid_from)


class TableOfFiles(Table):
    """A table: files whose rows become fields of records."""

    kind: Literal["files"] = Field(description="Which kind of table this is.")
    path: str = Field(
        min_length=1,
        description="A file, or a folder whose files are one table: `.csv` with a header, `.jsonl` or `.json` with an "
        "object a line, `.parquet`.",
    )


class TableOfTopic(Table, TopicPlace):
    """A table whose rows are the messages of a compacted topic, of any number of partitions; see control-topics.md."""

    key_format: KeyFormat | None = Field(
        default=None,
        description="What the key of a message is: `text`, the value of the one column of the table's key; `json`, an "
        "object with all of its columns, and with that of `valid_from`. By default `text` where there is one "
        "column and no `valid_from`.",
    )

    @property
    def keyed(self) -> KeyFormat:
        """What the key of a message is."""
        return self.key_format or ("text" if self._alone else "json")

    @property
    def _alone(self) -> bool:
        return len(self.key) == 1 and self.valid_from is None

    def findings(self) -> list[Finding]:
        """A key as text has no room for several values."""
        if self.key_format != "text" or self._alone:
            return []
        columns = one_of([*self.key.values(), *([self.valid_from] if self.valid_from else [])])
        return [Finding(("key_format",), "text", "json, for a row that is known by several columns", columns)]


TableSettings = TableOfFiles | TableOfTopic
KINDS: dict[str, type[Settings]] = {"files": TableOfFiles, "kafka": TableOfTopic}
AnyTable = Annotated[TableSettings, PlainValidator(by_kind(KINDS))]


def check_tables(value: Any) -> Any:
    """Names that rules can write before a dot."""
    for name in value if isinstance(value, dict) else ():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise refusal(f"names of small letters, digits and _, at most 64, and not {shown(name)}")
    return value


def with_tables(
    streams: Mapping[str, StreamSpec], tables: Mapping[str, TableSettings]
) -> tuple[dict[str, StreamSpec], list[Finding]]:
    """The streams with the fields that tables add to them, and what does not fit; paths begin at ``enrich``."""
    added: dict[str, dict[str, TableSpec]] = {}
    findings: list[Finding] = []
    for table, settings in tables.items():
        named = settings.streams
        mine = [name for name in named or streams if name in streams and (named or _has(streams[name], settings))]
        wrong = [
            *_unknown(table, settings, streams),
            *_misfits(table, settings, {name: streams[name] for name in mine}),
        ]
        findings += wrong
        if not wrong:
            for name in mine:
                added.setdefault(name, {})[table] = settings.spec
    return {name: _enriched(each, added.get(name, {})) for name, each in streams.items()}, findings


def _enriched(stream: StreamSpec, tables: Mapping[str, TableSpec]) -> StreamSpec:
    return StreamSpec.model_validate({**stream.model_dump(), "enrich": tables}) if tables else stream


def _has(stream: StreamSpec, settings: TableSettings) -> bool:
    return all(field in stream.own_columns for field in settings.key)


def _unknown(table: str, settings: TableSettings, streams: Mapping[str, StreamSpec]) -> Iterator[Finding]:
    """Names of nothing."""
    for number, name in enumerate(settings.streams or ()):
        if name not in streams:
            hint = nearest(name, streams) or f"the streams: {one_of(streams, 30)}"
            yield Finding(("enrich", table, "streams", number), shown(name), "the name of a declared stream", hint)
    if settings.streams is None and not any(_has(each, settings) for each in streams.values()):
        fields = list(dict.fromkeys(field for each in streams.values() for field in each.own_columns))
        wrong = [field for field in settings.key if field not in fields] or list(settings.key)
        hint = nearest(wrong[0], fields) or f"the fields: {one_of(fields, 30)}"
        yield Finding(("enrich", table, "key"), ", ".join(wrong), "fields that records of some stream have", hint)


def _misfits(table: str, settings: TableSettings, streams: Mapping[str, StreamSpec]) -> Iterator[Finding]:
    """What the table and the streams that it is for do not agree on."""
    at: Path = ("enrich", table)
    columns = settings.spec.columns
    kinds: dict[str, str] = {}
    for name, stream in streams.items():
        fields = (*stream.own_columns, *stream.header_fields)
        used = next((field for field in fields if field.partition(".")[0] == table), None)
        if used is not None:
            yield Finding(at, f"table {table}", f"a name that no field of stream {name} has", f"it has {used}")
        for field, column in settings.key.items():
            spec = stream.own_columns.get(field)
            if spec is None:
                hint = nearest(field, stream.own_columns) or f"its fields: {one_of(stream.own_columns, 30)}"
                yield Finding((*at, "key"), shown(field), f"a field of stream {name}", hint)
            elif spec.is_list:
                yield Finding((*at, "key"), f"{field} of type {spec}", "a field with one value")
            elif kinds.setdefault(column, spec.kind) != spec.kind:
                found = f"{field} of type {spec} in stream {name}"
                yield Finding((*at, "key"), found, f"one type in all streams: {kinds[column]}", "name the streams")
            elif column in columns and columns[column] != FieldSpec(spec.kind):
                found = f"{column} of type {columns[column]}, a column of the key"
                yield Finding((*at, "fields", column), found, f"the type of the field {field}: {spec.kind}")
    since = settings.valid_from
    if since is not None and columns.get(since, FieldSpec("timestamp")).kind != "timestamp":
        yield Finding((*at, "valid_from"), f"{since} of type {columns[since]}", "a column of type timestamp")
    if since is not None and since in settings.key.values():
        yield Finding((*at, "valid_from"), f"{since}, a column of the key", "a column of its own")
