"""The error about a header that lacks a name."""

from __future__ import annotations

from crossline.basics.texts.separators import header_text


def test_a_name_that_is_meant_as_it_stands_is_no_guess() -> None:
    header = ["id", "merchant_id", "payment"]
    assert header_text(header, ["payment_id"], ["payment_id", "merchant_id"]).endswith(
        "is payment_id meant by payment?"
    )
    assert header_text(header[:2], ["payment_id"], ["payment_id", "merchant_id"]) == "found fields id, merchant_id"
