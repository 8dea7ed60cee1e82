"""Holds that people place, and end, as they are asked for: checked by what a pipeline would say, then written."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.texts.problems import shown
from crossline.rule_registry.atomic_files import held, replace_file
from crossline.rule_registry.content import FileContent, content_in_folder
from crossline.rule_registry.history import History
from crossline.rule_registry.sources.folders import folder_with_logs, known_of
from crossline.rule_registry.sources.holds import (
    BYTES_MAX,
    HOLDS,
    EndWish,
    HoldState,
    HoldWish,
    check_hold,
    file_name,
    hold_name,
)
from crossline.rule_registry.sources.keys import HoldKey, key_of
from crossline.rule_registry.sources.rule_publisher import as_if_published

if TYPE_CHECKING:
    from crossline.settings.config import PipelineConfig

_ASKED = "asked_at"


def check_asked(config: PipelineConfig, histories: Collection[History], wish: HoldWish | EndWish, now_ms: int) -> None:
    """Raise PermanentError where a pipeline with one of these logs would refuse it, UsageError where none decides."""
    if isinstance(wish, HoldWish):
        if config.policy is None:
            raise UsageError("found a pipeline without a policy, where nothing is decided; expected policy: FILE")
        for history in histories:
            check_hold(wish, HoldState(config.streams, history), now_ms)
    elif not any(wish.hold_id in history.placed for history in histories):
        raise PermanentError(f"found no hold {wish.hold_id}; expected one that is loaded: see crossline holds list")


def ask_in_folder(config: PipelineConfig, wish: HoldWish | EndWish, now_ms: int) -> bool:
    """Write it as a file beside the rules; whether that is new. Paths of ``config`` are joined to its folder.

    Raises PermanentError where a pipeline would refuse it, or another hold has the id.
    """
    check_id(wish)
    path = Path(config.rules.path)
    folder = folder_with_logs(path, known_of(config))
    with held(path):
        histories = folder.histories or [as_if_published(folder.rules()[0])]
        beside = path / HOLDS
        file = beside / file_name(wish)
        before = content_in_folder(file, BYTES_MAX)
        if stands_already(before, wish):
            return False
        check_asked(config, histories, wish, now_ms)
        beside.mkdir(exist_ok=True)
        replace_file(file, wish.to_bytes(), before)
        return True


def check_id(wish: HoldWish | EndWish) -> None:
    """Raise UsageError where its id is none: files and messages are called by it."""
    if key_of(hold_name(wish)) != HoldKey(wish.hold_id, released=isinstance(wish, EndWish)):
        raise UsageError(f"found hold {shown(wish.hold_id)}; expected an id of 32 hex digits, as crossline holds gives")


def stands_already(before: FileContent | None, wish: HoldWish | EndWish) -> bool:
    """Whether the same was asked for before. Raises PermanentError where something else was, of the same id."""
    if before is None or before.error is not None:
        return False
    known, mine = _but_when(before.data), _but_when(wish.to_bytes())
    if isinstance(wish, HoldWish) and known != mine:
        raise PermanentError(f"found hold {wish.hold_id}, which asks for something else; expected an id of its own")
    return known == mine


def _but_when(raw: bytes) -> object:
    try:
        body = orjson.loads(raw)
    except ValueError:
        return None
    return {name: value for name, value in body.items() if name != _ASKED} if isinstance(body, dict) else body
