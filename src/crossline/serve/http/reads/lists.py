"""The named lists as they stand: of a folder by its files, of a topic by the rule log."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from crossline.core.conditions.lists import Entry
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.sources import ControlTopic
from crossline.core.texts.problems import RefusedError
from crossline.rulelog.directory import log_path, logs_in
from crossline.rulelog.listfile import list_name, read_list
from crossline.rulelog.listlog import ListLog, contents_of
from crossline.rulelog.lists import folder_of_lists
from crossline.rulelog.logfile import read_log

_KEPT_MAX = 200
_lock = threading.Lock()
_read: dict[tuple[str, str], Sequence[Entry]] = {}  # by source and digest, as lists are large and change seldom


def entries_of(config: PipelineConfig) -> Mapping[str, Sequence[Entry]]:
    """The entries of each list, by name. What is wrong in a file leaves that list out, as a pipeline does."""
    if config.lists is None:
        return {}
    if isinstance(config.lists, ControlTopic):
        return _logged(config)
    found: dict[str, Sequence[Entry]] = {}
    for source, content in (folder_of_lists(Path(config.lists.path)).changed() or {}).items():
        with _lock:
            known = _read.get((source, content.digest))
        if known is None:
            try:
                known = read_list(source, content)
            except RefusedError:
                continue
            with _lock:
                if len(_read) >= _KEPT_MAX:
                    _read.clear()
                _read[source, content.digest] = known
        found.setdefault(list_name(source), known)
    return found


def _logged(config: PipelineConfig) -> Mapping[str, Sequence[Entry]]:
    """As the pipeline took them up last."""
    if config.name not in logs_in(config.rules.path):
        return {}
    path = log_path(config.rules.path, config.name)
    log = ListLog(contents_of(path).entries).after(read_log(path))
    return {name: log.read(versions[-1].source, versions[-1].digest) for name, versions in log.versions.items()}
