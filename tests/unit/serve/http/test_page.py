"""``docs/api.md``: its requests are answered as it says, and its table is that of the OpenAPI file."""

from __future__ import annotations

import os
import re
from pathlib import Path

import orjson
from tests.unit.serve.http.kit import Client

from crossline.serve.http.openapi import operations_table

PAGE = Path(__file__).parents[4] / "docs/api.md"
MARK = "<!-- operations: written by tests/unit/serve/http/test_page.py -->\n"
_BLOCK = re.compile(r"^```http\n(.*?)^```$(?:\n\n```json\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def test_its_requests_are_answered_as_it_says(writing: Client) -> None:
    asked = 0
    for block, answer in _BLOCK.findall(PAGE.read_text()):
        head, *more = block.split("\n\n")
        first, *lines = head.split("\n")
        verb, path = first.split(" ")
        headers = dict(line.split(": ") for line in lines)
        reported = writing.request(verb, path, headers=headers, content=more[0].encode() if len(more) > 1 else None)
        assert f"HTTP/1.1 {reported.status_code}" == more[-1].strip(), (first, reported.text)
        if answer:
            body, given = orjson.loads(answer), reported.json()
            assert {name: given[name] for name in ("ok", "rules", "warnings")} == {
                name: body[name] for name in ("ok", "rules", "warnings")
            }
            (shown,), (problem,) = body["problems"], given["problems"]
            assert shown.items() <= problem.items()
        asked += 1
    assert asked > 9


def test_its_table_names_every_operation(writing: Client) -> None:
    """``CROSSLINE_WRITE_PAGES=1`` writes it."""
    text, mark, table = PAGE.read_text().partition(MARK)
    expected = "\n" + operations_table(writing.get("/v1/openapi.json").json())
    if os.environ.get("CROSSLINE_WRITE_PAGES"):
        PAGE.write_text(text + mark + expected)
        table = expected
    assert table == expected, f"write it anew: CROSSLINE_WRITE_PAGES=1 python -m pytest {Path(__file__).name}"
