"""What a failed query says: the texts are those that Spark 4.1 gave when records were deleted, topics made again."""

from __future__ import annotations

import pytest

from crossline.basics.errors import PermanentError, StateError
from crossline.runtime.spark.failure import explained

LOST = """Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: """
IN_A_BATCH = (
    """[STREAM_FAILED] Query [id = 6209461b, runId = fce5c52a] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. \
Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/crossline/engine/outcome.py", line 33, in collect
    table = frame.toArrow()
py4j.protocol.Py4JJavaError: An error occurred while calling o218.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
	at org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: """
    + LOST
    + """Could not read records in offset [49, 148) for topic partition ret-a-0
with consumer group spark-kafka-source-a87b6362-executor.
	at org.apache.spark.sql.kafka010.KafkaExceptions$.couldNotReadOffsetRange(KafkaExceptions.scala:101)
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: out of range for ret-a-0
	... 1 more
"""
)
AT_PLANNING = (
    "[STREAM_FAILED] Query [id = 9bcb8c7a, runId = 59280e59] terminated with exception: "
    + LOST
    + """Partition fewer-1 offset was changed from 51 to 6.
This could be either 1) a user error, or 2) the kafka topic-partition is deleted and re-created. SQLSTATE: XXKST
=== Streaming Query ===
"""
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (IN_A_BATCH, ["topic ret-a, partition 0", "offsets 49 to 147 were to be read", "retention.ms", "start anew"]),
        (AT_PLANNING, ["topic fewer, partition 1", "goes on at offset 51", "ends at 6", "made again", "start anew"]),
        (LOST + "Partitions [a-1] have been deleted.\n\tat x", ["Partitions [a-1] have been deleted.", "start anew"]),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this.",
            ["topic of the source is not there any more"],
        ),
    ],
)
def test_records_that_are_gone(text: str, expected: list[str]) -> None:
    reported = explained(RuntimeError(text))
    assert type(reported) is PermanentError
    assert [part for part in expected if part not in str(reported)] == []
    assert "Py4J" not in str(reported)
    assert "\n" not in str(reported)


def test_what_another_failure_of_java_says_is_its_innermost_cause() -> None:
    text = IN_A_BATCH.replace("Some data may", "Nothing may").replace("OffsetOutOfRangeException: out", "X: out")
    assert str(explained(RuntimeError(text))) == (
        "the query failed: org.apache.kafka.clients.consumer.X: out of range for ret-a-0"
    )


def test_our_own_errors_are_reported_as_they_were_raised() -> None:
    text = "…\ncrossline.basics.errors.StateError: state of batch 7 is missing\n\n\tat java"
    reported = explained(RuntimeError(text))
    assert (type(reported), str(reported)) == (StateError, "state of batch 7 is missing")


def test_an_error_of_python_and_one_without_a_message() -> None:
    assert str(explained(RuntimeError("x\nKeyError: 'a'\n\tat"))) == "the query failed: KeyError: 'a'"
    assert str(explained(RuntimeError(""))) == "the query failed: RuntimeError('')"
