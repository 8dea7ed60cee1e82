"""Which records a pipeline says its decisions of, and where those go."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crossline.core.settings.fields import Settings


class DecisionSettings(Settings):
    """Which decisions are told. They go to the sinks, as alerts do; `policy` says what is decided."""

    emit: Literal["hits", "all"] = Field(
        default="hits",
        description="`hits`: for records that some delivered rule hits. `all`: for every record that came in time.",
    )
    sink_topic: str | None = Field(
        default=None,
        min_length=1,
        description="Topic for decisions, out of `topic` and `topics` of the Kafka sinks; none: those send none.",
    )
