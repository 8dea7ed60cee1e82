"""The views that a person saved, one of which is the default."""

from __future__ import annotations

from typing import Any

import orjson

from crossline.basics.texts.problems import shown
from crossline.serve.cases import checks
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import NoSuchCaseError, NotTakenError

VIEWS_MAX, NAME_MAX, QUERY_MAX = 100, 100, 4_000


def views(file: CaseFile, who: str) -> list[dict[str, Any]]:
    """Those of ``who``, by name."""
    found = file.rows("SELECT name, query, is_default FROM views WHERE who = ? ORDER BY name", (who,))
    return [
        {"name": each["name"], "query": orjson.loads(each["query"]), "default": bool(each["is_default"])}
        for each in found
    ]


def put(file: CaseFile, who: str, name: str, query: dict[str, Any], *, default: bool) -> dict[str, Any]:
    """Save a view; where it is the default, no other one is any more. Raises NotTakenError."""
    checks.text("/name", name, NAME_MAX, least=1)
    text = orjson.dumps(query).decode()
    checks.text("/query", text, QUERY_MAX)
    with file.transaction():
        known = {each["name"] for each in views(file, who)}
        if name not in known and len(known) >= VIEWS_MAX:
            raise NotTakenError("/name", f"{len(known)} views already", f"at most {VIEWS_MAX}")
        if default:
            file.run("UPDATE views SET is_default = 0 WHERE who = ?", (who,))
        file.run("INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?)", (who, name, text, int(default)))
    return {"name": name, "query": query, "default": default}


def remove(file: CaseFile, who: str, name: str) -> None:
    """Forget a view. Raises NoSuchCaseError."""
    with file.transaction():
        if not file.rows("SELECT 1 FROM views WHERE who = ? AND name = ?", (who, name)):
            raise NoSuchCaseError(f"there is no view {shown(name)}")
        file.run("DELETE FROM views WHERE who = ? AND name = ?", (who, name))
