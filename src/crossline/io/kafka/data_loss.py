"""Error texts for topics that lack the offsets of a checkpoint. Imports no client."""

from __future__ import annotations

_ANEW = "move the checkpoint folder away and start anew: all that the topic has is judged then"


def deleted_before_read(
    topic: str, partition: int | str, wanted: int, wanted_end: int | None, begins: int | None
) -> str:
    """Records from offset ``wanted`` on (up to ``wanted_end``, left out) are gone; the partition ``begins`` later."""
    read = f"offsets {wanted} to {wanted_end - 1} were to be read" if wanted_end else f"offset {wanted} comes next"
    left = f"; it begins at offset {begins} now" if begins is not None else ""
    return (
        f"topic {topic}, partition {partition}: records were deleted before they were read ({read}{left}). "
        f"Let the topic keep records for longer (retention.ms, retention.bytes). To go on without them, {_ANEW}"
    )


def ends_before(topic: str, partition: int | str, wanted: int, ends: int) -> str:
    """The checkpoint goes on at offset ``wanted``, the partition ``ends`` before it."""
    return (
        f"topic {topic}, partition {partition}: the checkpoint goes on at offset {wanted}, and the partition ends at "
        f"{ends}: the topic was deleted and made again, or lost records in a crash of its brokers. "
        f"To read what it has now, {_ANEW}"
    )


def remade(topic: str, known: str, found: str, note: str) -> str:
    """The topic has another id than the file ``note`` records."""
    return (
        f"topic {topic} is not the one that this checkpoint reads: found id {found}, expected {known}. It was deleted "
        f"and made again, or `brokers` names another cluster; offsets of the one mean nothing in the other. To read "
        f"it, {_ANEW}. Only where each record is known to have the offset that it had before: delete {note}"
    )


def history_lost(reason: str) -> str:
    """Records were deleted; ``reason`` is Spark's text."""
    return (
        f"records that were to be read are not in Kafka any more: {reason}. Let the topic keep records for longer "
        f"(retention.ms, retention.bytes), and do not delete it. To go on without them, {_ANEW}"
    )


def absent_somewhere() -> str:
    """A topic of the source does not exist; the error does not name it."""
    return "a topic of the source is not there any more; one that is deleted and made again is not read on: " + _ANEW


def absent(topic: str) -> str:
    """The topic does not exist."""
    return f"topic {topic} is not there; create it, or correct `topic` of the source"
