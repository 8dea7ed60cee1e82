"""Maps errors of the Kafka client: which are transient, and which concern a single topic or message."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from crossline.basics.errors import CrosslineError, PermanentError, RetryableError, SinkError, StateError

TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE}
# Errors of the other messages of a transaction in which one message was rejected.
OF_ANOTHER = {
    KafkaError._PURGE_QUEUE,  # noqa: SLF001 - the client's public constants are named so
    KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    KafkaError._STATE,  # noqa: SLF001
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
# Errors of one topic that an operator can fix while the batch is held.
_OF_A_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic {}",
    KafkaError._UNKNOWN_TOPIC: "create the topic {}",  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION: "create the topic {}",  # noqa: SLF001
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "let the sink's user read and write topic {}",
    KafkaError.TOPIC_EXCEPTION: "give topic {} a name that Kafka takes",
    KafkaError.POLICY_VIOLATION: "see what the brokers' policy asks of topic {}",
    KafkaError.LEADER_NOT_AVAILABLE: "see that the brokers of topic {} are up",
}
# Transient errors: those that the protocol's table marks as retriable, and the client's time-outs. The client sets its
# own mark only in transactions: by the mark alone a change of leader would stop a pipeline.
_PASSING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_CONTROLLER,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._ISR_INSUFF,  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    KafkaError._PURGE_QUEUE,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
}

_NOT_ALLOWED = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_NO_TRANSACTIONS = {KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION}  # noqa: SLF001
_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}


def passes(error: KafkaError) -> bool:
    """Whether the error is transient: a leader changes, a broker restarts."""
    return error.code() in _PASSING or error.code() == KafkaError.LEADER_NOT_AVAILABLE


def of_one_topic(error: KafkaError) -> bool:
    """Whether the error concerns one topic only."""
    return error.code() in _OF_A_TOPIC


def transaction_error(error: KafkaError, name: str) -> CrosslineError:
    """The error of a transaction that could not begin or commit. ``name``: its transactional id and its group."""
    text = f"Kafka did not commit what was sent under the name {name}: {error.str()}"
    if error.code() in _NOT_ALLOWED:
        return SinkError(
            f"{text}; let the sink's user write the transactional id, and read the group, of this name (both begin "
            "with crossline-), or set `transactions: false` for the sink"
        )
    if error.code() in _NO_TRANSACTIONS:
        return SinkError(f"{text}; these brokers know no transactions: set `transactions: false` for the sink")
    if error.code() in _FENCED:
        return SinkError(f"{text}; another process has begun under it, or this one stood still: looking at what stands")
    return SinkError(text)


def open_transaction_error(name: str) -> SinkError:
    """A broker keeps a finished transaction open, so that the last batch of a topic cannot be read."""
    return SinkError(
        f"Kafka answers, and holds a transaction open that was sent under the name {name} and is over; a broker that "
        "was killed as it committed may do so for ever. Let the user see the topic __consumer_offsets (DESCRIBE), and "
        "it is ended from here, see docs/sinks.md; or look with kafka-transactions.sh find-hanging. The batch waits"
    )


def other_batch_error(topic: str, found: int, wanted: int, name: str) -> StateError:
    """A topic has a batch of this number, or a later one, that is not the batch which it is to get."""
    return StateError(
        f"topic {topic} has batch {found} of this checkpoint, and is to get batch {wanted}, planned at another "
        "time: another process is ahead of this one, or an older copy of the checkpoint was put back. If it was, "
        f"have the brokers forget what was delivered: kafka-consumer-groups --delete --group {name}; what "
        "the topic has, but for its last records, is then sent again under the same ids"
    )


def sink_error_of(error: KafkaError, topic: str) -> CrosslineError:
    """The error of a message to ``topic``. After a fatal error of a producer, a new producer may succeed."""
    text = f"Kafka did not take what goes to topic {topic}: {error.str()}"
    if of_one_topic(error):
        return SinkError(f"{text}; {_OF_A_TOPIC[error.code()].format(topic)}")
    if error.retriable() or error.fatal() or error.code() in _PASSING:
        return SinkError(text)
    return PermanentError(text)


def raise_any(failures: Mapping[str, CrosslineError]) -> None:
    """Raise the errors of all topics as one; a PermanentError where retrying does not help."""
    if failures:
        ends = [error for error in failures.values() if not isinstance(error, RetryableError)]
        kind = type(ends[0]) if ends else SinkError
        raise kind("; ".join(str(error) for error in failures.values()))
