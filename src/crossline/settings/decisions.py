"""Which decisions a pipeline emits, and where they go."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crossline.basics.texts.problems import Finding, shown
from crossline.settings.fields import Settings


class DecisionSettings(Settings):
    """Which decisions are reported. Those on records with hits go to the sinks, as alerts do."""

    emit: Literal["hits", "all"] = Field(
        default="hits",
        description="`hits`: those on records at which some delivered rule holds. `all`: on every record that came in "
        "time.",
    )
    sink_topic: str | None = Field(
        default=None,
        min_length=1,
        description="Topic for decisions, out of `topic` and `topics` of the Kafka sinks; none: those send none. "
        "With `emit: all` the tasks send them.",
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        description="With `emit: all`: folder for the decisions on all records, as files of JSON lines, one a shard. "
        "The tasks write them; sinks get those on records with hits.",
    )

    def findings(self) -> list[Finding]:
        """All records' decisions without a place, or a folder without them."""
        if self.emit == "all" and self.path is None and self.sink_topic is None:
            expected = "a place for them: sink_topic: TOPIC of a Kafka sink, or a folder, path: out/decisions"
            return [Finding(("emit",), "all, and neither sink_topic nor path", expected)]
        if self.emit == "hits" and self.path is not None:
            return [Finding(("path",), shown(self.path), "no path, or emit: all; the sinks take those on hits")]
        return []
