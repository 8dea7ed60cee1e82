"""The editor over a past with labels: the form by keyboard, blast radius, slider, a backtest that is stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from crossline.serve.approvals.values import RuleDraft

from .labelled import RULE, labelled
from .serving import serving
from .test_pages import faults
from .test_rules import WAIT_MS, Console

pytestmark = pytest.mark.xdist_group("browser")
AT = "/rules/card_testing/1/edit"
STEPS = """\
# Guessing.
rule_id: guessed
version: 1
rule_type: sequence
source_topic: payments
group_by: account_id
steps:
  # the small ones
  - {name: tries, times: 3, conditions: [{field: amount_cents, operator: "<", value: 200}]}
  - {name: large, conditions: [{field: amount_cents, operator: ">=", value: 50000}]}
within: 10m
severity: high
"""


@pytest.fixture(scope="module")
def console(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with labelled(tmp_path_factory.mktemp("labelled")) as room, serving(room.app) as url:
        room.user("tom.berg", "analyst")
        yield Console(room, url, browser)


def drafted(console: Console, who: str, rule_id: str, text: str) -> None:
    parts = console.room.parts
    parts.approvals.keep_draft(RuleDraft(rule_id, who, text, parts.now_ms()))


def fits(page: Page, width: int) -> None:
    """Nothing is wider than the page, and no drawing than its place."""
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wider = (
        "[...document.querySelectorAll('.chw, #trial, .stats')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert page.evaluate(wider) == 0


def test_the_form_is_worked_by_keyboard_and_the_text_follows(console: Console, axe: str) -> None:
    drafted(console, "ines.vale", "new", STEPS)
    ines = console.seat("ines.vale", "/rules/new?view=form")
    text, lines = ines.locator("#text"), STEPS.splitlines(keepends=True)
    ines.get_by_role("button", name="Down Step 1").press("Enter")
    expect(text).to_have_value("".join([*lines[:7], lines[9], lines[7], lines[8], *lines[10:]]))
    up = ines.get_by_role("button", name="Up Step 2")
    expect(up).to_be_focused()  # it went with its step
    up.press("Enter")
    expect(text).to_have_value(STEPS)
    ines.get_by_text("One more condition").nth(1).press("Enter")
    name = "f.steps/0/conditions/+/"
    ines.locator(f'[name="{name}field"]').fill("amount_sents")
    ines.locator(f'[name="{name}value"]').fill("9")
    ines.locator(f'[name="{name}join"]').select_option("not")
    ines.locator(f'[name="{name}value"]').press("Tab")
    ines.locator('button[name=more][value="steps/0/conditions"]').press("Enter")
    added = '{not: {field: amount_sents, operator: "==", value: 9}}]}'
    expect(text).to_have_value(STEPS.replace("value: 200}]}", f"value: 200}}, {added}"))
    wrong = ines.locator('[name="f.steps/0/conditions/1/not/field"]')
    expect(wrong).to_have_attribute("aria-invalid", "true")
    expect(ines.locator('[id="w.steps/0/conditions/1/not/field"]')).to_contain_text("did you mean amount_cents?")
    assert faults(ines, axe) == []
    wrong.fill("amount_cents")
    expect(wrong).not_to_have_attribute("aria-invalid", "true")
    expect(ines.locator("#caption")).to_contain_text("tries")
    ines.locator('[name="f.rule_type"]').select_option("velocity")
    expect(ines.locator("#turn")).to_contain_text("loses steps (line 7), within (line 11)")
    expect(text).to_have_value(re.compile("rule_type: sequence"))
    ines.get_by_role("button", name="Change to velocity").press("Enter")
    expect(text).to_have_value(
        re.compile("rule_type: velocity\nsource_topic: payments\ngroup_by: account_id\nseverity")
    )
    fits(ines, 390)
    ines.context.close()


def test_the_nearest_frauds_and_good_customers_are_seen_in_the_past_that_was_chosen(console: Console, axe: str) -> None:
    drafted(console, "ines.vale", "card_testing", RULE)
    ines = console.seat("ines.vale", AT)
    ines.locator("[name=from]").fill("2026-01-02T00:00")
    ines.locator("#draw").click()
    expect(ines.locator("#slid")).to_contain_text("3: ", timeout=WAIT_MS)
    ines.locator("#run").click()
    trial = ines.locator("#trial")
    expect(trial).to_contain_text("Proof", timeout=WAIT_MS)
    expect(trial).to_contain_text("2026-01-02 00:00 to 2026-01-04")
    expect(trial).to_contain_text("Nearest frauds that it misses")
    frauds = re.search(r"of (\d+)", ines.locator("#slid").inner_text())
    assert frauds is not None
    expect(trial).to_contain_text(f"of {frauds[1]}")  # recall and slider speak of the same frauds
    expect(trial.get_by_text("2 is not >= 3: 1 is missing").first).to_be_visible()
    expect(trial.locator(".blast a[href^='/entities/account_id/acc']").first).to_be_visible()
    assert faults(ines, axe) == []
    expect(ines.locator("#stale")).to_be_hidden()
    ines.locator("h1").click()
    ines.keyboard.press("]")
    expect(ines.locator("#stale")).to_be_visible()  # the text is another now
    for width in (1440, 1024, 390):
        fits(ines, width)
    ines.context.close()


def test_a_backtest_is_stopped_run_again_and_found_from_another_tab(console: Console) -> None:
    drafted(console, "ines.vale", "card_testing", RULE)
    drafted(console, "tom.berg", "card_testing", RULE.replace("threshold: 3", "threshold: 2"))
    ines, tom = console.seat("ines.vale", AT), console.seat("tom.berg", AT)
    for page in (ines, tom):
        page.locator("#run").click()
        page.wait_for_url("**job=*")
    ines.get_by_role("button", name="Stop").click()
    expect(ines.locator("#trial")).to_contain_text("The backtest was stopped. The text is kept.")
    expect(tom.locator("#trial")).to_contain_text("Proof", timeout=WAIT_MS)  # his goes on
    ines.locator("#run").click()
    ines.wait_for_url("**job=*")
    job = re.search(r"job=(\w+)", ines.url)
    assert job is not None
    area = ines.get_by_role("textbox", name="Text of the rule")
    area.focus()
    ines.keyboard.press("Control+a")
    ines.keyboard.insert_text(RULE.replace("15m", "20m"))
    expect(ines.locator("#stale")).to_be_visible()
    again = ines.context.new_page()
    ines.close()
    again.goto(f"{console.url}{AT}?job={job[1]}")
    expect(again.locator("#trial")).to_contain_text("Proof", timeout=WAIT_MS)
    expect(again.get_by_role("button", name="Ask for approval")).to_have_count(
        0 if again.locator("#why").count() else 1
    )
    refused = tom.goto(f"{console.url}{AT}?job={job[1]}")
    assert refused is not None
    expect(tom.locator("#trial")).to_contain_text("The backtest failed.")  # hers is not his to see
    for page in (again, tom):
        page.context.close()
