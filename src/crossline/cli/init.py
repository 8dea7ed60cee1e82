"""``crossline init``: writes a small project that runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.texts.plaintext import printable

_NAMES_SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="init")(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="What was written, as JSON.")] = False,
) -> None:
    """Write an example project that runs: payments, three rules, and where to go from there."""
    target = _empty(folder)
    written = []
    for name, content in template_files():
        path = target / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Created, never overwritten: the file may have appeared since the check.
            with path.open("xb") as file:
                file.write(content)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        written.append(name)
    if as_json:
        sys.stdout.write(orjson.dumps({"directory": str(folder), "files": written}).decode() + "\n")
        return
    listed = "".join(f"  {name}\n" for name in written)
    sys.stdout.write(f"{printable(str(folder))} has\n{listed}")
    sys.stderr.write(
        f"next: crossline run {folder / 'pipeline.yaml'} --drain; {folder / 'README.md'} has the next steps\n"
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


def _empty(folder: Path) -> Path:
    """Where ``folder`` leads to, once ``..`` and links are followed; raises UsageError unless it is new or empty."""
    try:
        target = Path(os.path.realpath(folder))
        names = sorted(entry.name for entry in target.iterdir())
    except FileNotFoundError:
        return target
    except NotADirectoryError:
        raise UsageError(f"{folder} is a file; expected a folder that is new or empty") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}; expected a folder that is new or empty") from None
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        raise UsageError(
            f"{folder} is not empty: it has {', '.join(names[:_NAMES_SHOWN])}{more}; "
            f"name a new folder, for example {target / 'payments'}"
        )
    return target
