"""The named lists as they stand: of a folder by its files, of a topic by the rule log."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from crossline.basics.conditions.lists import Entry
from crossline.basics.texts.problems import RefusedError
from crossline.io.tokens.lookup import list_tokens
from crossline.rule_registry.directory import log_path, logs_in
from crossline.rule_registry.list_file import list_name, read_list
from crossline.rule_registry.list_log import ListLog, contents_of
from crossline.rule_registry.lists import folder_of_lists
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.token_lists import with_tokens
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import ControlTopic

_lock = threading.Lock()
# By path: what is read again where a file was touched alone, as lists are large and change seldom.
_folders: dict[str, tuple[Folder, Mapping[str, Sequence[Entry]]]] = {}


def entries_of(config: PipelineConfig) -> Mapping[str, Sequence[Entry]]:
    """The entries of each list, by name. What is wrong in a file leaves that list out, as a pipeline does."""
    if config.lists is None:
        return {}
    if isinstance(config.lists, ControlTopic):
        return _logged(config)
    path = config.lists.path
    with _lock:
        folder, known = _folders.get(path) or (folder_of_lists(Path(path)), {})
        files = folder.changed()
        if files is not None:
            known = _read(with_tokens(files, list_tokens(config.streams)))
            folder.take(files)
        _folders[path] = folder, known
    return known


def _read(files: Files) -> Mapping[str, Sequence[Entry]]:
    found: dict[str, Sequence[Entry]] = {}
    for source, content in files.items():
        with suppress(RefusedError):
            found.setdefault(list_name(source), read_list(source, content))
    return found


def _logged(config: PipelineConfig) -> Mapping[str, Sequence[Entry]]:
    """As the pipeline took them up last."""
    if config.name not in logs_in(config.rules.path):
        return {}
    path = log_path(config.rules.path, config.name)
    log = ListLog(contents_of(path).entries).after(read_log(path))
    return {name: log.read(versions[-1].source, versions[-1].digest) for name, versions in log.versions.items()}
