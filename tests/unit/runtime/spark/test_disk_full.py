"""What a failed query says of a disk that takes nothing, in Python's words and in Java's."""

from __future__ import annotations

from itertools import islice

import pytest

from crossline.runtime.spark.disk_full import disk_full_line, retry_pauses_s


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            (
                "[STREAM_FAILED] Query terminated with exception: An exception was raised by the Python Proxy.\n"
                "OSError: [Errno 28] No space left on device: 'c/history.last.tmp'\n\n\tat py4j.Protocol.x("
            ),
            "OSError: [Errno 28] No space left on device: 'c/history.last.tmp'",
        ),
        (
            "Caused by: java.io.IOException: No space left on device\n\tat java.io.x",
            "java.io.IOException: No space left on device",
        ),
        ("OSError: [Errno 122] Disk quota exceeded: 'f'", "OSError: [Errno 122] Disk quota exceeded: 'f'"),
        (
            "java.io.FileNotFoundException: /c/.1.tmp (Read-only file system)",
            "java.io.FileNotFoundException: /c/.1.tmp (Read-only file system)",
        ),
        ("OSError: [Errno 27] File too large", "OSError: [Errno 27] File too large"),
        ("OSError: [Errno 5] Input/output error", None),
        ("OSError: [Errno 2] No such file or directory: '/28'", None),
        ("", None),
    ],
)
def test_the_line_that_says_so_is_found(text: str, message: str | None) -> None:
    assert disk_full_line(RuntimeError(text)) == message


def test_pauses_grow_and_have_a_bound() -> None:
    assert list(islice(retry_pauses_s(), 7)) == [1, 2, 4, 8, 16, 30, 30]
