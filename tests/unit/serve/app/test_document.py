"""``docs/openapi.json`` is what the app says, is OpenAPI 3.1, and names every route that the app answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis

from crossline.cli.main import run_command
from crossline.serve.access.roles import ROUTES
from crossline.serve.app.document import document_text

FILE = Path(__file__).parents[4] / "docs" / "openapi.json"
DOCUMENT = json.loads(FILE.read_text())


def test_the_file_is_what_the_app_says() -> None:
    assert FILE.read_text() == document_text(), "write it anew: crossline serve openapi > docs/openapi.json"


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["serve", "openapi"]) == 0
    assert capsys.readouterr().out == FILE.read_text()
    assert run_command(["serve", "openapi", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == DOCUMENT


def test_it_is_openapi_3_1() -> None:
    """As the meta-schema of OpenAPI 3.1 has it, which refuses a parameter that stands nowhere."""
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    assert DOCUMENT["openapi"] == "3.1.0"
    broken: dict[str, Any] = json.loads(FILE.read_text())
    broken["paths"]["/v1/alerts"]["get"]["parameters"][0]["in"] = "nowhere"
    with pytest.raises(Exception, match="nowhere"):
        schemathesis.openapi.from_dict(broken).validate()


def test_all_that_it_refers_to_stands_in_it() -> None:
    def named(part: Any) -> set[str]:
        if isinstance(part, dict):
            return {part["$ref"]} if "$ref" in part else {each for value in part.values() for each in named(value)}
        return {each for value in part for each in named(value)} if isinstance(part, list) else set()

    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert named(DOCUMENT["paths"]) <= schemas
    assert named(DOCUMENT["components"]) <= schemas


def test_it_has_every_route_of_the_table_of_access() -> None:
    served = {(verb.upper(), path) for path, item in DOCUMENT["paths"].items() for verb in item}
    assert served == {(verb, path.replace(":path", "")) for verb, path in ROUTES}
