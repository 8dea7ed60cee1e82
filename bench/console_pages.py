"""The requests of ``bench.console``: every page of the console, by the addresses that people use."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.console_data import LIST
from bench.console_store import RECORDS, RULES, Stock
from crossline.serve.access.routes import RouteTable
from crossline.serve.console.access import NEEDS


@dataclass(frozen=True, slots=True)
class Linked:
    """An address from a link: ``pattern`` finds it in ``page``, and its groups fill ``form``."""

    page: str
    pattern: str
    form: str = "{}"


Address = str | Linked
Addresses = dict[str, Callable[[], Address]]

JUDGED = ("small", "evidence", "changes", "records")
# Pages that are not timed, and why.
LEFT_OUT: Mapping[str, str] = {
    "/events": "a stream without an end",
    "/login/provider": "leads to an identity provider",
    "/login/callback": "comes from an identity provider",
    **{f"/cases/{{case_id}}/{part}/{{alert_id}}": "asked for with --judged" for part in JUDGED},
    "/components": "shows the parts of pages, where the console is open",
    "/curves/{job_id}": "shows a job that only the process itself has in memory",
    "/samples/{job_id}": "as above",
    "/trials/{job_id}": "as above",
}


def addresses(made: Stock, at: random.Random) -> Addresses:
    """The addresses by name; their values are drawn anew in each round."""
    alerts, draw = made.alerts, _Draw(made, at)
    return {
        **_work(made, draw),
        "decisions": lambda: "/decisions",
        "decisions, older": lambda: Linked("/decisions", r'href="(/decisions\?[^"]*before=[^"]+)"'),
        "decisions that block": lambda: "/decisions?decision=block",
        "decisions, a record": lambda: f"/decisions?record=t{at.randrange(alerts):09}",
        "decision": lambda: Linked(
            f"/decisions?record=t{at.randrange(alerts) // 5 * 5:09}", r'href="(/decisions/[^"?]+)"'
        ),
        "entities": lambda: "/entities",
        "entity": lambda: f"/entities/account_id/{draw.account()}",
        "entity, a hold asked": lambda: f"/entities/account_id/{draw.account()}?act=hold",
        "unknown entity": lambda: "/entities/account_id/nobody",
        "links": lambda: f"/links/account_id/{draw.account()}",
        "search, a word of all": lambda: "/search?q=payments",
        "search, an id": lambda: f"/search?q=t{at.randrange(alerts):09}",
        "search, part of an id": lambda: f"/search?q=a00{at.randrange(1000):03}",
        "search, nothing found": lambda: "/search?q=zebra+quagga",
        **_rules(draw),
        **_operations(made, at),
    }


def judged(made: Stock, at: random.Random) -> Addresses:
    """Parts that the page of a case requests after it is shown: a command reads records back and judges them again.

    Their time depends on the source and not on the number of alerts; they have no target.
    """
    draw, found = _Draw(made, at), r'"(/cases/C-\d+)/evidence/([^"]+)"'

    def of_an_alert(part: str) -> Callable[[], Address]:
        return lambda: Linked(f"/cases/{draw.early_case()}", found, f"{{}}/{part}/{{}}")

    return {f"judged, {part}": of_an_alert(part) for part in JUDGED}


class _Draw:
    def __init__(self, made: Stock, at: random.Random) -> None:
        self._made, self._at = made, at

    def case(self) -> str:
        return f"C-{self._at.randrange(1, self._made.cases)}"

    def early_case(self) -> str:
        """One whose records are there."""
        return f"C-{self._at.randrange(1, RECORDS // 5)}"

    def account(self) -> str:
        return f"a{self._at.randrange(self._made.alerts) // 100 * 30 + self._at.randrange(30):07}"

    def rule(self) -> str:
        return f"rule_{self._at.randrange(RULES):02}"

    def word(self) -> str:
        return f"t{self._at.randrange(self._made.alerts):09}"


def _work(made: Stock, draw: _Draw) -> Addresses:
    """The queue and the case."""
    return {
        "home": lambda: "/",
        "queue, open": lambda: "/queue?view=open",
        "queue, unassigned": lambda: "/queue?view=unassigned",
        "queue, all by money": lambda: "/queue?view=all&sort=money",
        "queue, filters": lambda: f"/queue?view=all&severity=high&rule={draw.rule()}&money=1000",
        "queue, entity": lambda: f"/queue?view=all&entity=account_id:{draw.account()}",
        "queue, words": lambda: f"/queue?view=all&q={draw.word()}",
        "queue, a word of all": lambda: "/queue?view=all&q=payments",
        "queue, a form": lambda: f"/queue?view=open&ask=resolve&case={draw.case()}",
        "queue, more": lambda: Linked("/queue?view=all&sort=money", r'"(/queue/more\?[^"]+)"'),
        "queue, what is new": lambda: f"/queue/news?view=open&seen={made.cases - 50}",
        "preview": lambda: f"/queue/preview/{draw.case()}?view=open",
        "case": lambda: f"/cases/{draw.case()}?view=open",
        "case, what changed": lambda: f"/cases/{draw.case()}/state?version=1&alerts=1&money=x",
        "views": lambda: "/views",
    }


def _rules(draw: _Draw) -> Addresses:
    return {
        "rules": lambda: "/rules",
        "rules by hits": lambda: "/rules?sort=hits&q=rule",
        "rule": lambda: f"/rules/{draw.rule()}",
        "rule, a version": lambda: f"/rules/{draw.rule()}/1",
        "rule with a proof": lambda: "/rules/rule_00",
        "rule, the editor": lambda: f"/rules/{draw.rule()}/1/edit",
        "rule, a new one": lambda: "/rules/new",
        "approvals": lambda: "/approvals",
        "approval": lambda: "/approvals/2",
        "approval, its proof": lambda: "/approvals/2/proof.json",
        "lists": lambda: "/lists",
        "list": lambda: f"/lists/{LIST}",
        "suppressions": lambda: "/suppressions",
    }


def _operations(made: Stock, at: random.Random) -> Addresses:
    name = made.config.name
    return {
        "health": lambda: "/health",
        "health of rules": lambda: f"/health/{name}",
        "health of the pipeline": lambda: f"/health/{name}/pipeline",
        "objectives, the first": lambda: "/objectives",
        "objectives": lambda: f"/objectives/{name}",
        "dead letters": lambda: "/dead-letters",
        "dead letters, a reason": lambda: "/dead-letters?reason=bad_time&state=all",
        "dead letter": lambda: Linked("/dead-letters?state=all", r'href="(/dead-letters/[^"?]+)"'),
        "dead letters, old ones": lambda: Linked(
            "/dead-letters?state=all", r'href="(/dead-letters\?[^"]*before=[^"]+)"'
        ),
        "audit": lambda: "/audit",
        "audit, one person": lambda: f"/audit?who=p{at.randrange(7)}&outcome=refused",
        "audit, nothing found": lambda: "/audit?who=nobody-of-this-name",
        "people": lambda: "/people",
        "profile": lambda: "/profile",
        "log-in": lambda: "/login",
    }


def left_out(asked: set[str]) -> list[str]:
    """The pages that the addresses ``asked`` do not cover, except those that are left out."""
    table = RouteTable(NEEDS)
    met = {found.template for each in asked if (found := table.find("GET", each)) is not None}
    return sorted({path for method, path in NEEDS if method == "GET"} - met - set(LEFT_OUT))
