"""Fetches groups of jars into the cache folder, with a progress bar. Run with the environment's Python."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from crossline.basics.errors import CrosslineError
from crossline.runtime.machine.jars import JarStore, default_store


def main(groups: list[str]) -> int:
    """Fetch the missing files of ``groups``; return 1 if one could not be fetched."""
    store = default_store()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        if not any(store.missing(group) for group in groups):
            return 0
        with Progress(*columns, console=Console(stderr=True)) as bar:
            for group in groups:
                fetch(store, group, bar)
    except CrosslineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def fetch(store: JarStore, group: str, bar: Progress) -> None:
    """Fetch the missing files of ``group``; without any there is no progress bar."""
    missing = len(store.missing(group))
    task = bar.add_task(f"jars: {group}", total=missing, visible=missing > 0)
    store.ensure(group, lambda _name, done, _total: bar.update(task, completed=done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
