"""``crossline rules check``: all that is wrong with rule files. It loads what reads rules, and nothing that judges."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import render
from crossline.cli.terminal.notes import note, write_lines
from crossline.rule_registry.content import FileContent, read_pipeline_in_place, read_text
from crossline.rule_registry.file_check import judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.outcomes.warnings import warnings_of
from crossline.rule_registry.rule_files import Known, figures_beside, files_at
from crossline.rules.figure_tables import SharedFigure

Stream = Annotated[Path | None, typer.Option("--stream", help="Stream file to check fields and types against.")]
Lists = Annotated[Path | None, typer.Option("--lists", help="Folder of the named lists that rules refer to.")]
Figures = Annotated[Path | None, typer.Option("--figures", help="Folder of the shared figures, if it is another.")]
PipelineFile = Annotated[
    Path | None,
    typer.Option("--pipeline", help="Pipeline file: rules are checked against its streams, lists and topics."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Rule files, or folders of them.")],
    *,
    stream: Stream = None,
    lists: Lists = None,
    figures: Figures = None,
    pipeline: PipelineFile = None,
    as_json: AsJson = False,
) -> None:
    """Check rule files; print every fault, and exit with 1 if there is one."""
    files: dict[str, FileContent] = {}
    for path in paths:
        files |= files_at(path, empty=True)
    accepted, refused = judge_files(files, History(), known(stream, lists, pipeline, figures))
    problems = [problem for error in refused.values() for problem in error.problems]
    warnings = [each for item in accepted for each in warnings_of(item)]
    shared = len(_shared_figures(files)) if not accepted and not problems else 0
    none = not accepted and not problems and not shared
    if as_json:
        counts = {"files": len(files), "rules": len(accepted), "problems": problems, "warnings": warnings}
        write_lines([orjson.dumps({"ok": not problems and not none, **counts})])
    elif problems:
        sys.stdout.write(render(problems) + "\n")
    for each in () if as_json else warnings:
        note(f"warning: {each.source}:{each.line}: {each.path}: {each.found}; {each.expected}")
    if none:
        note(f"found no rules in {', '.join(map(str, paths))}; expected files with a rule or a list of rules")
    elif not as_json and not problems:
        counted = _counted(shared, "shared figure") if shared else _counted(len(accepted), "rule")
        note(f"{counted} in {_counted(len(files), 'file')}: nothing wrong")
    note_unchecked(stream, pipeline)
    if problems or none:
        raise typer.Exit(1)


def _shared_figures(files: Mapping[str, FileContent]) -> list[SharedFigure]:
    """Those that stand in ``files``: a folder of them has no rules, and that is no mistake."""
    return [figure for name, content in files.items() for figure, _ in figures_beside(name, content, Known())]


def known(stream: Path | None, lists: Path | None, pipeline: Path | None, figures: Path | None) -> Known:
    """What rules are checked against: a pipeline file, or a stream file and folders of lists and figures."""
    if pipeline is None:
        streams = None if stream is None else load_streams(read_text(stream), str(stream))
        return Known(streams, _list_names(lists), figures=figures)
    if stream is not None or lists is not None or figures is not None:
        raise UsageError("--pipeline names streams, lists and figures: leave out --stream, --lists and --figures")
    from crossline.rule_registry.sources.folders import known_of

    return known_of(read_pipeline_in_place(pipeline))


def _list_names(lists: Path | None) -> list[str] | None:
    if lists is None:
        return None
    from crossline.rule_registry.lists import lists_in

    return sorted(lists_in(lists))


def note_unchecked(stream: Path | None, pipeline: Path | None) -> None:
    """Say so where neither is named."""
    if stream is None and pipeline is None:
        note("fields and types were not checked: name the stream file with --stream")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
