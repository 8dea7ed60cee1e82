"""What is small as a text and large once it is read is refused in little time, with its line."""

import json
import time

import pytest
import yaml

from crossline.basics.texts.problems import PROBLEMS_SHOWN, RefusedError
from crossline.basics.texts.yamltext import SIZE_MAX, load_yaml
from crossline.rules.rule_reader import CONDITIONS_MAX, RULE_SIZE_MAX, RULES_MAX, load_rules_text

from .rulekit import THRESHOLD, VELOCITY, streams

STREAMS = streams()
# Processor time of this thread alone. Far above what it takes now, far below what it took before.
SOON_S = 20.0


def refused(text: str) -> RefusedError:
    began_s = time.thread_time()
    with pytest.raises(RefusedError) as caught:
        load_rules_text(text, "r.yaml", STREAMS)
    assert time.thread_time() - began_s < SOON_S
    assert len(str(caught.value)) < 200_000
    return caught.value


def aliased(count: int, size: int) -> str:
    """``count`` rules that share a description of ``size`` characters: a first one that has it, others that name it."""
    head = f"- {{rule_id: r0, version: 1, rule_type: threshold, source_topic: payments, description: &d {'x' * size},\n"
    body = "   conditions: &c [{field: amount_cents, operator: '>', value: 1}]}\n"
    rest = "rule_type: threshold, source_topic: payments, description: *d, conditions: *c"
    more = "".join(f"- {{rule_id: r{number}, version: 1, {rest}}}\n" for number in range(1, count))
    return head + body + more


def test_a_text_that_aliases_make_large_is_refused_where_it_becomes_so() -> None:
    text = aliased(1_500, 60_000)
    assert len(text) < 250_000
    error = refused(text)
    (problem,) = error.problems
    assert "more than 16,777,216 bytes, with what aliases name written out" in problem.found
    # Line 1 has the first, line 2 its conditions; every further line has one more.
    assert 16 * 2**20 / 60_300 < problem.line < 16 * 2**20 / 60_000 + 3


def test_what_aliases_share_within_bounds_is_read() -> None:
    loaded = load_rules_text(aliased(200, 1_000), "r.yaml", STREAMS)
    assert [len(item.rule.description or "") for item in loaded] == [1_000] * 200


def test_a_large_rule_is_refused_and_the_others_are_checked() -> None:
    lines = [
        {**THRESHOLD, "rule_id": "small"},
        {**THRESHOLD, "rule_id": "large", "description": "x" * RULE_SIZE_MAX},
        {**VELOCITY, "window": "never"},
    ]
    error = refused("[" + ",\n".join(map(json.dumps, lines)) + "]")
    assert [(problem.line, problem.path) for problem in error.problems] == [(2, "[1]"), (3, "[2].window")]
    assert "named list" in str(error.problems[0].hint)
    values = [{"field": "merchant_id", "operator": "in", "value": list(range(10_000))}]
    assert load_rules_text(yaml.safe_dump({**THRESHOLD, "conditions": values}), "r.yaml", STREAMS)


def test_a_rule_that_aliases_make_large_is_refused() -> None:
    steps = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 8)}]\n" for n in range(1, 5))
    text = f"x0: &x0 {'y' * 100}\n{steps}rule_type: threshold\n"
    (problem,) = refused(text).problems
    assert "a rule of more than 262,144 bytes" in problem.found


@pytest.mark.parametrize(("count", "is_read"), [(CONDITIONS_MAX, True), (CONDITIONS_MAX + 1, False)])
def test_conditions_are_counted(count: int, is_read: bool) -> None:
    leaf = {"field": "amount_cents", "operator": ">", "value": 1}
    text = json.dumps({**THRESHOLD, "conditions": [{"any": [leaf] * (count - 1)}, leaf]})
    if is_read:
        assert load_rules_text(text, "r.yaml", STREAMS)
    else:
        assert "found 1,001 conditions; expected at most 1,000 in a rule" in str(refused(text))


def test_rules_of_a_file_are_counted() -> None:
    error = refused("[" + "0," * RULES_MAX + "0]")
    assert f"more than {RULES_MAX:,} rules" in error.problems[-1].found
    assert f"and {RULES_MAX + 1 - PROBLEMS_SHOWN:,} more" in str(error)


def test_very_many_problems_are_reported_in_part() -> None:
    error = refused("\n".join(f"- {{rule_id: R{n}, rule_type: x}}" for n in range(5_000)))
    assert len(error.problems) == 4 * 5_000
    assert str(error).startswith("20000 problems in r.yaml\n\nr.yaml:1: ")
    assert str(error).endswith(f"and {20_000 - PROBLEMS_SHOWN:,} more")


def test_names_as_long_as_a_file_are_cut() -> None:
    error = refused(json.dumps({**THRESHOLD, "x" * 200_000: 1, "conditions": {"all": [], "y" * 20_000: 1}}))
    assert len(str(error)) < 10_000


@pytest.mark.parametrize("text", ["[" * 60_000 + "]" * 60_000, "- " * 50_000, "{a: " * 50_000, '{"a": ' * 50_000])
def test_deep_nesting(text: str) -> None:
    assert [problem.line for problem in refused(text).problems] == [1]


def test_a_file_beyond_the_bound() -> None:
    with pytest.raises(RefusedError, match=r"found 16,777,217 bytes; expected at most 16,777,216 bytes in a file"):
        load_yaml("#" * (SIZE_MAX + 1), "r.yaml")


@pytest.mark.parametrize("ms", [-62_135_596_800_001, 253_402_300_800_000, 2**62 - 1])
def test_an_instant_outside_the_calendar(ms: int) -> None:
    (problem,) = refused(json.dumps({**THRESHOLD, "effective_from": ms})).problems
    assert problem.path == "effective_from"
    assert f"{ms}, outside the years 1 to 9999" in problem.found


def test_half_a_surrogate_pair_is_reported_with_its_line() -> None:
    assert refused("a: 1\nb: \ud800\n").problems[0].line == 2
