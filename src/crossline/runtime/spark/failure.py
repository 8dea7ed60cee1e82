"""The message of a failed query, as a crossline error where crossline raised it or knows the cause."""

from __future__ import annotations

import re

from crossline.basics import errors
from crossline.basics.errors import CrosslineError, PermanentError
from crossline.io.kafka.data_loss import absent_somewhere, deleted_before_read, ends_before, history_lost

# A worker's exception arrives as text: "crossline.basics.errors.StateError: <message>", then the JVM's own lines.
_OURS = re.compile(
    rf"{re.escape(errors.__name__)}\.(\w+): (.*?)(?=\n\s*(?:at |Caused by|\t|SQLSTATE)|\n\n|\Z)", re.DOTALL
)
_PYTHON = re.compile(r"^(?:[\w.]+(?:Error|Exception)): .+$", re.MULTILINE)
# The innermost cause stands last; py4j's own message has nothing about it.
_CAUSE = re.compile(r"^Caused by: (?!py4j\.)([\w.$]+: .+)$", re.MULTILINE)
# What Java threw stands behind py4j's message where nothing caused it.
_THROWN = re.compile(r"^: (?!py4j\.)([\w.$]+: .+)$", re.MULTILINE)
_END = r"(?=\n\s*at |\n===|\n\n|\s+SQLSTATE|\Z)"
_LOST = re.compile(
    rf"Some data may have been lost because they are not available in Kafka.*?Reason: (.*?){_END}", re.DOTALL
)
_UNREADABLE = re.compile(r"offset \[(\d+), (\d+)\) for topic partition (\S+)-(\d+)")
_CHANGED = re.compile(r"Partition (\S+)-(\d+) offset was changed from (\d+) to (\d+)")
_ABSENT = "UnknownTopicOrPartitionException"


def explained(failure: Exception) -> CrosslineError:
    """``failure`` of a query as one of our errors; its cause is kept."""
    text = str(failure)
    ours = _OURS.search(text)
    if ours is not None:
        kind = getattr(errors, ours.group(1), PermanentError)
        if isinstance(kind, type) and issubclass(kind, CrosslineError):
            return kind(ours.group(2).strip())
    of_kafka = _of_kafka(text)
    if of_kafka is not None:
        return PermanentError(of_kafka)
    python, causes = _PYTHON.findall(text), _CAUSE.findall(text) or _THROWN.findall(text)
    if python and not ("Py4JJavaError" in python[-1] and causes):
        message = python[-1]
    elif causes:
        message = causes[-1]
    else:
        message = text.strip().splitlines()[0] if text.strip() else repr(failure)
    return PermanentError(f"the query failed: {message}")


def _of_kafka(text: str) -> str | None:
    """The message of Spark's Kafka source about deleted records. It refuses to go on without them, and so do we."""
    lost = _LOST.search(text)
    if lost is None:
        return absent_somewhere() if _ABSENT in text else None
    reason = " ".join(lost.group(1).split())
    unreadable, changed = _UNREADABLE.search(reason), _CHANGED.search(reason)
    if unreadable is not None:
        wanted, end, topic, partition = unreadable.groups()
        return deleted_before_read(topic, partition, int(wanted), int(end), None)
    if changed is not None:
        topic, partition, wanted, ends = changed.groups()
        return ends_before(topic, partition, int(wanted), int(ends))
    return history_lost(reason)
