"""The rules of a pipeline and their log as they stand in files, read again where one of them changed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from crossline.rule_registry.directory import logs_in
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.outcomes.overview import Row, rule_rows
from crossline.rule_registry.publish import RuleFolder
from crossline.rule_registry.rule_files import Known
from crossline.rule_registry.sources.folders import folder_with_log
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import RulesTopic

KEPT_MAX = 8
# A file may change twice within one tick of its clock: what changed just now is read again.
SETTLED_NS = 2_000_000_000
Marks = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Rulebook:
    """What the files say. ``rows``: of each rule the version in force and drafts that wait; ``versions``: all.

    ``refused``: files that are no rules, each with why. All of it is only read.
    """

    folder: RuleFolder
    events: list[RuleEvent]
    rows: list[Row]
    versions: list[Row]
    refused: Mapping[str, str]


_kept: OrderedDict[tuple[str, str, str | None], tuple[Marks, Rulebook]] = OrderedDict()
_lock = threading.Lock()


def rulebook(config: PipelineConfig) -> Rulebook:
    """Of this pipeline, as it stands now."""
    of = config.rules.path, config.name, config.figures
    marks = tuple(sorted(_marks(config)))
    with _lock:
        known = _kept.get(of)
        if known is not None and known[0] == marks:
            _kept.move_to_end(of)
            return known[1]
    made = _read(config)
    newest = max((mtime_ns for _, mtime_ns, _, _ in marks), default=0)
    if time.time_ns() - newest > SETTLED_NS:
        with _lock:
            _kept[of] = marks, made
            while len(_kept) > KEPT_MAX:
                _kept.popitem(last=False)
    return made


def log_of(config: PipelineConfig) -> tuple[RuleFolder, list[RuleEvent]]:
    """The folder of the rules with the pipeline's log; no events where it has not run yet."""
    path = Path(config.rules.path)
    if isinstance(config.rules, RulesTopic):
        path.mkdir(parents=True, exist_ok=True)  # it has the log, once a pipeline has run
    name = config.name if path.is_dir() and config.name in logs_in(path) else None
    figures = Path(config.figures) if config.figures else None
    if name is None:
        return RuleFolder(path, [], Known(figures=figures)), []
    folder, events = folder_with_log(path, name, figures)
    return folder, events or []


def _read(config: PipelineConfig) -> Rulebook:
    folder, events = log_of(config)
    standing, refused = folder.rules()
    versions = rule_rows(events or None, standing, every_version=True)
    logged = {(row["rule_id"], row["version"]) for row in versions}
    versions += [row for row in rule_rows(None, standing) if (row["rule_id"], row["version"]) not in logged]
    rows = rule_rows(events or None, standing)
    return Rulebook(folder, events, rows, versions, {source: str(error) for source, error in refused.items()})


def _marks(config: PipelineConfig) -> Iterator[tuple[str, int, int, int]]:
    """By which a changed file is recognised: its path, modification time, size, inode."""
    path = Path(config.rules.path)
    found = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else []
    for each in (*found, *([Path(config.figures)] if config.figures else [])):
        try:
            stderr = each.stat()
        except OSError:  # it went meanwhile
            continue
        yield str(each), stderr.st_mtime_ns, stderr.st_size, stderr.st_ino
