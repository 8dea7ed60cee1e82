"""What settings of every sink share."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from crossline.core.settings.fields import Settings

BEHIND = (
    "Whether batches go on without waiting for this sink: what it is to get stands in the checkpoint until it has it."
)


class SinkSettings(Settings):
    """``behind``: whether batches do without waiting for this sink. ``PLACE``: the settings that say where it goes."""

    PLACE: ClassVar[tuple[str, ...]] = ()

    behind: bool = Field(default=False, description=BEHIND)
