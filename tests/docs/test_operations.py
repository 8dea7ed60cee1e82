"""docs/operations.md names errors, reasons and files as they are in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from crossline.basics import wire
from crossline.evaluate.alerts import alert
from crossline.ingest.decode import REASONS
from crossline.io.postgres.migrate import newest
from crossline.io.sqlite import schema
from crossline.rule_registry import events
from crossline.runtime.snapshot import snapshot

from .pages import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
ERRORS = PAGE.partition("## Errors")[2].partition("## Dead letters")[0]
MESSAGES = re.findall(r"^\| `([^`]+)` \|", ERRORS, re.MULTILINE)


def texts() -> Iterator[str]:
    """Every text in the code; what is filled in reads ``…``."""
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "dev").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


@pytest.fixture(scope="module")
def all_texts() -> list[str]:
    return list(texts())


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_is_in_the_code(message: str, all_texts: list[str]) -> None:
    pieces = [piece.strip() for piece in message.split("…")]
    pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    assert any(pattern.search(text) for text in all_texts), message


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 20


def test_every_reason_is_reported() -> None:
    reported = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Dead letters")[2], re.MULTILINE)
    assert reported == [*REASONS, "duplicate_id"]


def test_the_versions_are_those_of_the_code() -> None:
    assert (alert.SCHEMA_VERSION, events.SCHEMA_VERSION) == (1, 1)
    assert f"| state segments and packed parts | {wire.FORMAT_VERSION} |" in PAGE
    assert f"| the plan snapshot of a checkpoint | {snapshot.FORMAT} |" in PAGE
    assert f"| the store | {schema.SCHEMA_VERSION} |" in PAGE
    assert f"| tables in PostgreSQL | {newest()} |" in PAGE
    assert "`schema_version: 1`" in PAGE
