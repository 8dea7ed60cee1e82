"""One value of a rule as a form field: its input kind, its present value, and its position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from crossline.analysis.forms.values import FormField, Kind, at, name_of
from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Path, path_text
from crossline.basics.texts.yamledit import CannotEditError, source_of, written
from crossline.basics.texts.yamltext import Document, load_yaml

FORM_BYTES_MAX = 64 * 1024
_SENTENCE = re.compile(r"(?<=[a-z\d)])[.;:](?:\s|$)")
_OF_A_COLUMN = frozenset({"group_by", "entity", "join_key", "field", "of"})


def rule_in(text: str) -> tuple[Document, Path]:
    """The document of a text, and the path of its rule. Raises UsageError if it is too long, or has not one rule."""
    if len(text.encode(errors="replace")) > FORM_BYTES_MAX:
        raise UsageError(f"the text is longer than {FORM_BYTES_MAX:,} bytes, which the form does not show")
    document = load_yaml(text, "text", 2 * FORM_BYTES_MAX)
    rules = document.data if isinstance(document.data, list) else [document.data]
    if len(rules) != 1 or not isinstance(rules[0], dict) or not rules[0]:
        raise UsageError(f"the text has {len(rules)} values; the form shows one rule, which is a mapping")
    return document, (0,) if isinstance(document.data, list) else ()


def kind_of(annotation: Any) -> tuple[Kind, tuple[str, ...]] | None:
    """The input kind of a field of this type, and its options; None: it is no single value."""
    several = get_origin(annotation) in {Union, UnionType}
    parts = [each for each in get_args(annotation) if each is not NoneType] if several else [annotation]
    parts = [get_args(each)[0] if hasattr(each, "__metadata__") else each for each in parts]
    (part, *others) = parts or [NoneType]
    if get_origin(part) is Literal and not others:
        options = tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in get_args(part))
        return "choice", options
    if part is bool and not others:
        return "choice", ("true", "false")
    origins = [get_origin(each) for each in parts]
    if tuple in origins and all(each is str or get_origin(each) in {dict, tuple} for each in parts):
        return "names", ()
    if part is str and all(each is dict for each in origins[1:]):
        return "text", ()
    return ("value", ()) if set(parts) <= {int, float, str, bool} else None


@dataclass(frozen=True, slots=True)
class FormSource:
    """The text of a rule, and the streams whose fields it may name."""

    document: Document
    base: Path
    streams: Mapping[str, StreamSpec]

    @property
    def rule(self) -> dict[str, Any]:
        """Its body."""
        found: dict[str, Any] = at(self.document.data, self.base)
        return found

    def value(self, path: Path) -> Any:
        """The value at ``path`` of the rule; None if there is none."""
        return at(self.rule, path)

    def place(self, path: Path) -> str:
        """``path`` in the notation of error messages."""
        return path_text((*self.base, *path))

    def line(self, path: Path) -> int:
        """The line of ``path`` in the text; 0: it is not in the text."""
        return self.document.position((*self.base, *path))[0] if self.value(path) is not None else 0

    def value_text(self, path: Path) -> str:
        """A value on one line: a string without its quotes, other values as in the text."""
        value = self.value(path)
        if value is None or isinstance(value, str):
            return value or ""
        try:
            start, end = source_of(self.document.text, (*self.base, *path))
        except CannotEditError:
            return written(value, flow=True)
        source = self.document.text[start:end]
        return written(value, flow=True) if "\n" in source or source.startswith(("*", "&")) else source

    def columns(self, stream: Any = None) -> tuple[str, ...]:
        """The fields of a stream, or of the rule's own."""
        name = stream if isinstance(stream, str) else self.rule.get("source_topic")
        spec = self.streams.get(name) if isinstance(name, str) else None
        return () if spec is None else tuple(spec.columns)

    def field(self, path: Path, info: Any) -> FormField | None:
        """The form field of the value at ``path`` with this declaration; None if the form cannot set it."""
        name, kind, value = str(path[-1]), kind_of(info.annotation), self.value(path)
        if kind is None or (isinstance(value, dict) and "dict" in str(info.annotation)):
            return None
        hint = _first_phrase((info.description or "").replace("`", ""))
        options = self._options(name, path) or kind[1]
        return self.shown(path, name.replace("_", " "), kind[0], options, hint)

    def shown(
        self, path: Path, label: str, kind: Kind = "text", options: tuple[str, ...] = (), hint: str = ""
    ) -> FormField:
        """The value at ``path`` as a form field of this kind."""
        value = self.value(path)
        plain = kind == "names" and isinstance(value, list) and all(isinstance(each, str) for each in value)
        text = ", ".join(value) if plain else self.value_text(path)
        if kind == "choice" and text and text not in options:
            options = (*options, text)
        if "\n" in text or path[-1] == "description":
            kind = "long"
        return FormField(name_of(path), label, kind, text, options, hint, self.line(path), self.place(path))

    def _options(self, name: str, path: Path) -> tuple[str, ...]:
        if name == "source_topic":
            return tuple(self.streams)
        if name in _OF_A_COLUMN or name.endswith("_field"):
            return self.columns(self.value((*path[:-1], "source_topic")))
        return ()


def _first_phrase(description: str) -> str:
    """The first sentence, up to its colon if there are words before it.

    >>> _first_phrase("How long it may take: `10m`."), _first_phrase("true: no other may come. More.")
    ('How long it may take', 'true: no other may come')
    """
    short = _SENTENCE.split(description)[0]
    return short if " " in short else re.split(r"\.(?:\s|$)", description)[0]
