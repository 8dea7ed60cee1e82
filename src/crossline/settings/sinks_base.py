"""What settings of every sink share."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from crossline.settings.fields import Settings

BEHIND = (
    "Whether batches go on without waiting for this sink: what it is to get stands in the checkpoint until it has it."
)


class SinkSettings(Settings):
    """``behind``: whether batches do without waiting for this sink.

    A sink declares its settings by the fields of its model, and by these: ``PLACE``, the settings that name
    its address; ``SINK``, where its class is (``module:name``), which is loaded when a pipeline is built; ``NEEDS``,
    what to install for the libraries that the class imports (``crossline[kafka]``), None where it needs nothing more.
    """

    PLACE: ClassVar[tuple[str, ...]] = ()
    SINK: ClassVar[str] = ""
    NEEDS: ClassVar[str | None] = None

    behind: bool = Field(default=False, description=BEHIND)
