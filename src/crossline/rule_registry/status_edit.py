"""Sets the status or the share of a rule in the text of its file, and nothing else: comments and layout stay."""

from __future__ import annotations

import json
import re

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import Path
from crossline.basics.texts.yamltext import Document, load_yaml

_VALUE = r"""(?P<key>(["']?){}\2\s*:\s*)(?P<quote>["']?){}(?P=quote)"""
_WRITTEN = {
    "status": re.compile(_VALUE.format("status", "[A-Za-z_]+")),
    "share": re.compile(_VALUE.format("share", r"[0-9.]+\s*%")),
}
_RULE_ID = re.compile(r"""(?P<quote>["']?)rule_id(?P=quote)\s*:\s*(["']?)[A-Za-z0-9_.-]+\2""")


def with_status(text: str, source: str, path: Path, status: str) -> str:
    """``text`` with the rule at ``path`` (of the document) under ``status``; its ``status`` is added where it has none.

    Raises PermanentError where the layout is such that a person has to do it.
    """
    return _with(text, source, path, "status", status)


def with_share(text: str, source: str, path: Path, share: str) -> str:
    """As ``with_status``, of its ``share``."""
    return _with(text, source, path, "share", share)


def _with(text: str, source: str, path: Path, name: str, value: str) -> str:
    document = load_yaml(text, source)
    rule = _at(document, path)
    line, column = document.position((*path, name if name in rule else "rule_id"))
    lines = list(document.lines)
    head, here = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
    if name in rule:
        edited = _WRITTEN[name].sub(lambda found: found["key"] + found["quote"] + value + found["quote"], here, count=1)
        lines[line - 1] = head + edited
    else:
        lines[line - 1] = _added(head, here, name, value, in_flow=_in_flow(document, head))
    after = "".join(lines)
    if not _only_differs(document, after, path, name, value):
        raise PermanentError(f"{source}:{line}: found a layout that is not edited here; set {name}: {value} by hand")
    return after


def _at(document: Document, path: Path) -> dict[str, object]:
    value = document.data
    for step in path:
        value = value[step]
    return dict(value)


def _in_flow(document: Document, head: str) -> bool:
    """Whether the rule is written in braces: then a comma parts its fields, not a line."""
    return document.text.lstrip()[:1] in {"{", "["} or head.rstrip().endswith(("{", ","))


def _added(head: str, here: str, name: str, value: str, *, in_flow: bool) -> str:
    found = _RULE_ID.match(here)
    if found is None:
        return head + here
    if in_flow:
        quote = found["quote"]
        return f"{head}{found[0]}, {quote}{name}{quote}: {quote}{value}{quote}{here[found.end() :]}"
    ending = "\r\n" if here.endswith("\r\n") else "\n"
    whole = head + here if here.endswith("\n") else head + here + ending
    return f"{whole}{' ' * len(head)}{name}: {value}{ending}"


def _only_differs(document: Document, after: str, path: Path, name: str, value: str) -> bool:
    """The proof: the values of the edited text are those of the old one, but for what was set."""
    # Through text, so that what YAML shares between two places is two values, of which one may differ.
    expected = json.loads(json.dumps(document.data))
    rule = expected
    for step in path:
        rule = rule[step]
    rule[name] = value
    try:
        return bool(load_yaml(after, document.source).data == expected)
    except PermanentError:
        return False
