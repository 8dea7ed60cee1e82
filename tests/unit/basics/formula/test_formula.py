"""What a formula says of itself: names, plain writing, what an alert shows, the line that a kernel can draw."""

from __future__ import annotations

import pytest

from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.formula import ComparedValue, as_comparison
from crossline.basics.formula.tree import Node, Span, walk

from .formulakit import formula


def test_names_in_the_order_of_the_text_each_once() -> None:
    of = formula(
        "hour(event_time, 'UTC') > 1 and declines / tries > usual and tries in (1, 2) or missing(location.lat)"
    )
    assert of.names == ("event_time", "declines", "tries", "usual", "location.lat")
    assert formula("1 < 2").names == ()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("tries>=6   and\n\tdeclines/tries>.5", "tries >= 6 and declines / tries > 0.5"),
        ("(tries) >= ((6))", "tries >= 6"),
        ("tries < 10m", "tries < 600000"),
        ("tries < 1_000", "tries < 1000"),
        ("card.present == True", "card.present == true"),
        ("status == 'it\\'s'", 'status == "it\'s"'),
        ("status == 'a\"\\\\\\n'", 'status == "a\\"\\\\\\n"'),
        ("status in ['a',]", 'status in ("a",)'),
        ("tries not\nin (1, -2, +3)", "tries not in (1, -2, 3)"),
        ("not (not card.present)", "not not card.present"),
        ("not (tries > 1)", "not tries > 1"),
        ("(not card.present) == card.present", "(not card.present) == card.present"),
        ("(tries > 1 and tries > 2) and tries > 3", "(tries > 1 and tries > 2) and tries > 3"),
        ("tries > 1 or (tries > 2 and tries > 3)", "tries > 1 or tries > 2 and tries > 3"),
        ("(tries > 1) == (tries > 2)", "(tries > 1) == (tries > 2)"),
        ("(tries - (declines - 1)) - 1 > 0", "tries - (declines - 1) - 1 > 0"),
        ("tries - -declines * -(3 + tries) > - 5", "tries - -declines * -(3 + tries) > -5"),
        ("-(tries % 3) > -0.0", "-(tries % 3) > 0.0"),
        ("usual > 1e22 or usual < 1e-7 or usual > 5.", "usual > 1e+22 or usual < 1e-07 or usual > 5.0"),
        ("max( tries ,3,)>1", "max(tries, 3) > 1"),
    ],
)
def test_plain_writing(text: str, plain: str) -> None:
    assert formula(text).canonical == plain
    assert formula(plain) == formula(text)
    assert formula(plain).text != text or text == plain


def test_formulas_that_differ_are_reported_apart() -> None:
    texts = [
        "tries > 1",
        "tries > 1.0",
        "tries >= 1",
        "1 < tries",
        "tries > 1 or tries > 2",
        "tries in (1, 2)",
        "tries in (2, 1)",
    ]
    texts += [
        "coalesce(card.present, true)",
        "coalesce(card.present, false)",
        "missing(tries - 1 - 2)",
        "missing(tries - (1 - 2))",
    ]
    assert len({formula(text) for text in texts}) == len({formula(text).canonical for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tries >= 6 and declines > 3", "tries"),
        ("declines / tries > 0.5", "declines / tries"),
        ("missing(status) or not (3 < usual + 1)", "3"),
        ("status in ('a', 'b') and tries > 1", "status"),
        ("(tries > 3) == card.present", "tries > 3"),
        ("card.present and missing(status)", None),
    ],
)
def test_what_an_alert_shows(text: str, shown: str | None) -> None:
    left = formula(text).first_comparison_left()
    assert (None if left is None else canonical(left)) == shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tries >= 6", ComparedValue("tries", ">=", 6)),
        ("6 <= tries", ComparedValue("tries", ">=", 6)),
        ("6 < tries", ComparedValue("tries", ">", 6)),
        ("6 >= tries", ComparedValue("tries", "<=", 6)),
        ("6 > tries", ComparedValue("tries", "<", 6)),
        ("6 == tries", ComparedValue("tries", "==", 6)),
        ("usual != -0.5", ComparedValue("usual", "!=", -0.5)),
        ("-0.5 != usual", ComparedValue("usual", "!=", -0.5)),
        ("event_time < 10m", ComparedValue("event_time", "<", 600_000)),
        ("(location.lat) > (2)", ComparedValue("location.lat", ">", 2)),
        ("tries > declines", None),
        ("tries + 1 > 6", None),
        ("1 < tries < 6", None),
        ("not tries > 6", None),
        ("tries > 6 and tries < 9", None),
        ("tries in (6,)", None),
        ("6 > 5", None),
        ("card.present == true", None),
        ("true == card.present", None),
        ("status == 'a'", None),
    ],
)
def test_a_line(text: str, line: ComparedValue | None) -> None:
    assert as_comparison(formula(text)) == line


def test_nodes_know_where_they_stand() -> None:
    text = "tries  > 10m and (größer or not card.present) and hour( event_time,'UTC' ) not  in (1, -2)"
    written = [text[node.span.start : node.span.end] for node in walk(formula(text).root)]
    assert written == [
        *(text, "tries  > 10m", "tries", "10m", "größer or not card.present", "größer"),
        *("not card.present", "card.present", "hour( event_time,'UTC' ) not  in (1, -2)"),
        *("hour( event_time,'UTC' )", "event_time", "'UTC'", "1", "-2"),
    ]


def test_where_a_node_stands_does_not_count() -> None:
    def starts(node: Node) -> list[Span]:
        return [each.span for each in walk(node)]

    tight, loose = formula("tries>1"), formula("  tries  >  1")
    assert tight == loose
    assert hash(tight) == hash(loose)
    assert starts(tight.root) != starts(loose.root)
