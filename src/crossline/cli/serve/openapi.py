"""``crossline serve openapi``: the API as an OpenAPI file."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from crossline.basics.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Print the API as OpenAPI 3.1."
    app.command(name="openapi", help=text)(openapi)


def openapi(
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON in one line.")] = False,
) -> None:
    """Print the OpenAPI file, as docs/openapi.json has it; no pipeline has to be there."""
    try:
        from crossline.serve.app.document import api_document, document_text
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the API needs {error.name}, which is not installed: pip install 'crossline[serve]'"
        ) from None
    sys.stdout.write(f"{json.dumps(api_document(), sort_keys=True)}\n" if as_json else document_text())
