"""Rule files as they stand in a folder: read, checked, and each rule with its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.core.rules.base import Rule
from crossline.core.rules.report import Finding, Path, Problem, place
from crossline.core.rules.ruleset import load_rules_text
from crossline.core.schema import StreamSpec
from crossline.core.yamltext import Document, load_yaml
from crossline.rulelog.folder import FileContent
from crossline.rulelog.lists import text_of

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class FileRule:
    """A rule, valid in itself, at ``path`` of a file."""

    rule: Rule
    document: Document
    path: Path

    @property
    def source(self) -> str:
        """The file's name."""
        return self.document.source

    @property
    def line(self) -> int:
        """Line of the rule, from 1."""
        return self.document.position(self.path)[0]

    def problem(self, finding: Finding) -> Problem:
        """``finding`` at its place in the file."""
        return place(finding, self.document, self.path)


def read_rule_file(
    source: str,
    content: FileContent,
    streams: Mapping[str, StreamSpec] | None = None,
    lists: Collection[str] | None = None,
) -> list[FileRule]:
    """The rules of a file; raises RefusedError with all that is wrong with it."""
    text = text_of(source, content)
    loaded = load_rules_text(text, source, streams, lists)
    document = load_yaml(text, source)
    paths = rule_paths(document.data)
    return [FileRule(item.rule, document, path) for item, path in zip(loaded, paths, strict=True)]


def rule_paths(data: Any) -> list[Path]:
    """Where the rules stand in a file's data: at its top, in a list, or in several documents of either."""
    if not isinstance(data, list):
        return [] if data is None else [()]
    paths: list[Path] = []
    for number, item in enumerate(data):
        if isinstance(item, list):
            paths += [(number, inner) for inner in range(len(item))]
        elif item is not None:
            paths.append((number,))
    return paths
