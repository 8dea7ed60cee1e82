"""``crossline init``: writes a small project that runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.core.errors import UsageError

_NAMES_SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="init")(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="What was written, as JSON.")] = False,
) -> None:
    """Write an example project that runs: payments, three rules, and where to go from there."""
    _check_empty(folder)
    written = []
    for name, content in template_files():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}") from None
        written.append(name)
    if as_json:
        sys.stdout.write(orjson.dumps({"directory": str(folder), "files": written}).decode() + "\n")
        return
    listed = "".join(f"  {name}\n" for name in written)
    sys.stdout.write(f"{folder} has\n{listed}")
    sys.stderr.write(
        f"next: crossline run {folder / 'pipeline.yaml'} --drain; {folder / 'README.md'} says how to go on\n"
    )


def template_files() -> list[tuple[str, bytes]]:
    """The files of the example project: path in the project and content, by path."""
    return sorted(_below(files("crossline.cli") / "templates" / "payments", ""))


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _check_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; expected a folder that is new or empty")
    if not folder.is_dir():
        return
    names = sorted(entry.name for entry in folder.iterdir())
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        raise UsageError(
            f"{folder} is not empty: it has {', '.join(names[:_NAMES_SHOWN])}{more}; "
            f"name a new folder, for example {folder / 'payments'}"
        )
