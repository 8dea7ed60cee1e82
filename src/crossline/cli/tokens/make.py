"""``crossline tokens FIELD``: the tokens of values of a sensitive field, for lists, tables, rules and questions."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.cli.tokens.streams import given_streams

AT_ONCE = 1_000


def make(
    field: Annotated[str, typer.Argument(metavar="FIELD", help="Sensitive field, by its dotted name.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE]...", help="Values; without any, each line of the standard input is one."),
    ] = None,
    pipeline: Annotated[Path | None, typer.Option("--pipeline", help="Pipeline file, whose streams are meant.")] = None,
    stream_file: Annotated[Path | None, typer.Option("--stream", help="Stream file, in place of a pipeline.")] = None,
    person: Annotated[
        str | None, typer.Option("--person", help="Whose key is used, for a field that is declared with a person.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Print the tokens of values of a sensitive field, for lists, tables, rules and questions.

    A line each, in their order. A person without a key gets one. Values are best given on the standard input: others
    can see arguments.
    """
    spec = _spec(field, pipeline, stream_file)
    declared = spec.sensitive[field]
    if (declared.person is None) != (person is None):
        named = f"the value of {declared.person}: --person VALUE" if declared.person else "no --person"
        raise UsageError(f"field {field}: found {'no person' if person is None else '--person'}; expected {named}")
    from crossline.io.tokens.opening import tokeniser_of

    made = tokeniser_of(spec)
    if made is None:
        return
    lines = iter(values or (line.rstrip("\r\n") for line in sys.stdin))
    while some := list(islice(lines, AT_ONCE)):
        for token in made.values(field, some, person):
            typer.echo(orjson.dumps({"token": token}).decode() if as_json else token)


def _spec(field: str, pipeline: Path | None, stream_file: Path | None) -> StreamSpec:
    streams = given_streams(pipeline, stream_file)
    found = next((each for each in streams.values() if field in each.sensitive), None)
    if found is None:
        known = sorted({name for each in streams.values() for name in each.sensitive})
        raise UsageError(f"found {field}; expected a sensitive field: {', '.join(known) or 'no stream has one'}")
    return found


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Print the tokens of values; the word may be left out: crossline tokens FIELD."
    app.command(name="make", help=text)(make)
