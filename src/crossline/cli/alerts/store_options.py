"""The store that a command reads, and its options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.io.stores.factory import open_store, store_of
from crossline.io.stores.protocol import Store

DEFAULT_PIPELINE = Path("pipeline.yaml")

Db = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|URL",
        help="The store: the file of a sqlite sink, or postgresql://HOST/DB without a password, which PGPASSWORD or "
        "~/.pgpass has.",
    ),
]
Pipeline = Annotated[
    Path | None, typer.Option(help="Pipeline file whose sqlite or postgres sink is read [./pipeline.yaml].")
]
Since = Annotated[str | None, typer.Option(help="Only records with an event time at or after this instant.")]
Until = Annotated[str | None, typer.Option(help="Only records with an event time before this instant.")]


@contextmanager
def opened_store(db: str | None, pipeline: Path | None) -> Iterator[Store]:
    """The store that the options name, for as long as the context lasts; raises UsageError where they name none."""
    if db is not None and pipeline is not None:
        raise UsageError("give --db or --pipeline, not both")
    if db is None and pipeline is None and not DEFAULT_PIPELINE.is_file():
        raise UsageError("which store? give --db FILE, or --pipeline FILE (there is no pipeline.yaml here)")
    store = open_store(db) if db is not None else _of_pipeline(pipeline or DEFAULT_PIPELINE)
    try:
        yield store
    finally:
        store.close()


def _of_pipeline(path: Path) -> Store:
    from crossline.rule_registry.content import read_pipeline_in_place

    config = read_pipeline_in_place(path)
    store = store_of(config)
    if store is None:
        raise UsageError(
            f"pipeline {config.name} has no sink of kind sqlite or postgres, so that nothing stores its alerts"
        )
    return store


def since_until(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The instants that options give, in epoch milliseconds."""
    return _instant("--since", since), _instant("--until", until)


def _instant(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        instant = parse_instant_ms(int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else text)
        format_instant(instant)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option}: {error}") from None
    return instant
