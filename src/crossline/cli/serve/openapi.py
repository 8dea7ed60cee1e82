"""``crossline serve openapi``: the API as an OpenAPI file."""

from __future__ import annotations

import sys

import typer

from crossline.core.basics.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    said = "Print the API as OpenAPI 3.1, as docs/openapi.json has it: for whoever makes a client of it."
    app.command(name="openapi", help=said)(openapi)


def openapi() -> None:
    """Print the OpenAPI file; no pipeline has to be there."""
    try:
        from crossline.serve.app.document import document_text
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the API needs {error.name}, which is not installed: pip install 'crossline[serve]'"
        ) from None
    sys.stdout.write(document_text())
