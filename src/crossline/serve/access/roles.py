"""Who may see and do what. All of it stands in this file: scopes, roles, and the scope that each route needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from crossline.basics.texts.problems import nearest, one_of

DECIDE = "decide"
ANY_STREAM = f"{DECIDE}:*"
# What each lets its holder do, in the order in which commands list them. `decide:STREAM` stands beside these.
SCOPES = {
    "read:alerts": "read alerts, decisions, entities, rules, cases and lists",
    "read:records": "read the records that an alert rests on",
    "write:records": "send records again that could not be read, mended",
    "write:labels": "say whether a record was fraud",
    "write:cases": "work on cases: assign, snooze, escalate, resolve, merge, note; suppress alerts; save views",
    "write:lists": "add and end entries of lists",
    "hold": "hold a key, and release it",
    "rules:draft": "check, test, backtest and publish rules",
    "rules:approve": "approve of what another principal wrote; set the status of a rule, roll it back",
    "admin": "read the audit log; it includes no other scope",
}
ROLES: dict[str, frozenset[str]] = {
    "viewer": frozenset({"read:alerts"}),
    "analyst": frozenset({"read:alerts", "read:records", "write:labels", "write:cases", "hold", "rules:draft"}),
    "approver": frozenset({"read:alerts", "read:records", "rules:approve"}),
    "operator": frozenset({"read:alerts", "write:records", "write:lists", "hold", "admin"}),
    "service": frozenset({ANY_STREAM}),
}
STREAM_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,249}", re.ASCII)

Kind = Literal["key", "token", "open", "user", "session"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    ``kind``: by an API ``key``, by a ``token`` of the identity provider, as anybody where the API is ``open``, as a
    ``user`` of the machine at the command line, or by a ``session`` of the console. ``expires_ms``: until when the
    credential holds; None: without end.
    """

    name: str
    scopes: frozenset[str]
    kind: Kind
    expires_ms: int | None = None


# The caller where the API is open (`serve.open`, on loopback only): all scopes but those that need a user's name.
ANYBODY = Principal("anybody", frozenset({*SCOPES, ANY_STREAM} - {"rules:approve", "admin"}), "open")


def allows(principal: Principal, scope: str, stream: str | None = None) -> bool:
    """Whether ``principal`` has ``scope``.

    Args:
        principal: Who asks.
        scope: One of ``SCOPES``, ``decide:STREAM``, or ``decide`` with the ``stream``. ``decide`` without a stream asks
            whether there is any stream that it may decide about.
        stream: The stream, for ``decide``.

    Example:
        >>> shop = Principal("shop", frozenset({"decide:payments"}), "key")
        >>> allows(shop, "decide", "payments"), allows(shop, "decide", "logins"), allows(shop, "read:alerts")
        (True, False, False)
    """
    held = principal.scopes
    if scope == DECIDE:
        if stream is not None:
            return f"{DECIDE}:{stream}" in held or ANY_STREAM in held
        return any(each.startswith("decide:") for each in held)
    return scope in held or (scope.startswith("decide:") and ANY_STREAM in held)


def may_see(principal: Principal, stream: str) -> bool:
    """Whether it may read decisions of ``stream``: who reads alerts may, and who may ask for such decisions.

    A route whose address names no stream (``/v1/decisions/{decision_id}``) asks this of what it found, and answers
    ``problems.not_allowed()`` where it is not so, as where it found nothing.
    """
    return allows(principal, "read:alerts") or allows(principal, DECIDE, stream)


def scope_problem(scope: str, streams: Collection[str]) -> tuple[str, str, str | None] | None:
    """What is wrong with a scope: found, expected, hint; None if nothing is."""
    if scope in SCOPES or scope == ANY_STREAM:
        return None
    kind, colon, stream = scope.partition(":")
    if kind == DECIDE and colon:
        if stream in streams:
            return None
        return (
            f"scope {scope}",
            f"decide: and a stream of the pipeline: {one_of(sorted(streams))}",
            nearest(stream, streams),
        )
    known = [*SCOPES, "decide:STREAM"]
    return f"scope {scope}", one_of(known), nearest(scope, known)


def scopes_of_roles(roles: Iterable[str]) -> frozenset[str]:
    """All scopes of ``roles``; a role that is not known has none. ``service:STREAM`` is ``service`` for one stream."""
    found: set[str] = set()
    for role in roles:
        name, colon, stream = role.partition(":")
        if name == "service" and colon and STREAM_NAME.fullmatch(stream):
            found.add(f"{DECIDE}:{stream}")
        else:
            found |= ROLES.get(role, frozenset())
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Need:
    """What a route requires of its caller: any one of ``scopes``; nothing where it is ``public``.

    Without scopes, any principal will do.
    """

    scopes: tuple[str, ...] = ()
    public: bool = False

    def met(self, principal: Principal, stream: str | None) -> bool:
        """Whether ``principal`` may call it; ``stream``: that of the address, where it names one."""
        return not self.scopes or any(allows(principal, each, stream) for each in self.scopes)


_PUBLIC = Need(public=True)
_ANYBODY_KNOWN = Need()
_DECIDE = Need((DECIDE,))
_DECISIONS = Need(("read:alerts", DECIDE))  # the route asks `may_see` of what it found
_READ = Need(("read:alerts",))
_RECORDS = Need(("read:records",))
_DEAD, _RESEND = Need(("read:records", "write:records")), Need(("write:records",))
_LABELS, _CASES, _LISTS = Need(("write:labels",)), Need(("write:cases",)), Need(("write:lists",))
_HOLD, _DRAFT, _APPROVE = Need(("hold",)), Need(("rules:draft",)), Need(("rules:approve",))
_ADMIN = Need(("admin",))

# Templates whose answers have no end: a request for the head alone would wait for it.
ENDLESS = frozenset({"/v1/events"})
# Every route of the API, and its scope. A route that is not here is refused to everybody (see `check_routes`).
ROUTES: dict[tuple[str, str], Need] = {
    ("GET", "/healthz"): _PUBLIC,
    ("GET", "/readyz"): _PUBLIC,
    ("GET", "/v1/openapi.json"): _ANYBODY_KNOWN,
    ("GET", "/v1/version"): _ANYBODY_KNOWN,
    ("POST", "/v1/decisions/{stream}"): _DECIDE,
    ("POST", "/v1/decisions/{stream}:batch"): _DECIDE,
    ("GET", "/v1/decisions"): _DECISIONS,
    ("GET", "/v1/decisions/{decision_id}"): _DECISIONS,
    ("GET", "/v1/decisions/{decision_id}/receipt"): _DECISIONS,
    ("GET", "/v1/events"): _DECISIONS,
    ("GET", "/v1/alerts"): _READ,
    ("GET", "/v1/alerts/{alert_id}"): _READ,
    ("GET", "/v1/alerts/{alert_id}/counterfactuals"): _RECORDS,
    ("GET", "/v1/alerts/{alert_id}/evidence"): _RECORDS,
    ("GET", "/v1/alerts/{alert_id}/records"): _RECORDS,
    ("GET", "/v1/entities/{field}/{value:path}"): _READ,
    ("GET", "/v1/entities/{field}/{value:path}/links"): _READ,
    ("GET", "/v1/search"): _READ,
    ("GET", "/v1/dead-letters"): _DEAD,
    ("GET", "/v1/dead-letters/{letter_id}"): _DEAD,
    ("POST", "/v1/dead-letters/{letter_id}:resend"): _RESEND,
    ("GET", "/v1/holds"): _READ,
    ("POST", "/v1/holds"): _HOLD,
    ("GET", "/v1/holds/{hold_id}"): _READ,
    ("DELETE", "/v1/holds/{hold_id}"): _HOLD,
    ("GET", "/v1/labels/{stream}/{record_id:path}"): _READ,
    ("PUT", "/v1/labels/{stream}/{record_id:path}"): _LABELS,
    ("GET", "/v1/cases"): _READ,
    ("POST", "/v1/cases"): _CASES,
    ("GET", "/v1/cases:counts"): _READ,
    ("POST", "/v1/cases:bulk"): _CASES,
    ("GET", "/v1/cases/{case_id}"): _READ,
    ("GET", "/v1/cases/{case_id}/similar"): _READ,
    ("GET", "/v1/cases/{case_id}/linked"): _READ,
    ("POST", "/v1/cases/{case_id}:act"): _CASES,
    ("PATCH", "/v1/cases/{case_id}"): _CASES,
    ("POST", "/v1/cases/{case_id}/notes"): _CASES,
    ("GET", "/v1/views"): _READ,
    ("PUT", "/v1/views/{name}"): _CASES,
    ("DELETE", "/v1/views/{name}"): _CASES,
    ("GET", "/v1/suppressions"): _READ,
    ("POST", "/v1/suppressions"): _CASES,
    ("GET", "/v1/suppressions/{suppression_id}"): _READ,
    ("DELETE", "/v1/suppressions/{suppression_id}"): _CASES,
    ("GET", "/v1/lists"): _READ,
    ("GET", "/v1/lists/{name}/{entry:path}"): _READ,
    ("PUT", "/v1/lists/{name}/{entry:path}"): _LISTS,
    ("DELETE", "/v1/lists/{name}/{entry:path}"): _LISTS,
    ("GET", "/v1/rules"): _READ,
    ("GET", "/v1/rules/{rule_id}"): _READ,
    ("GET", "/v1/rules/{rule_id}/versions"): _READ,
    ("GET", "/v1/health/rules"): _READ,
    ("POST", "/v1/rules:check"): _DRAFT,
    ("POST", "/v1/rules:test"): _DRAFT,
    ("POST", "/v1/rules:backtest"): _DRAFT,
    ("POST", "/v1/rules:form"): _DRAFT,
    ("POST", "/v1/rules:prove"): _DRAFT,
    ("POST", "/v1/rules:thresholds"): _DRAFT,
    ("POST", "/v1/rules:publish"): _DRAFT,
    ("POST", "/v1/rules:approve"): _APPROVE,
    ("POST", "/v1/rules/{rule_id}:set-status"): _APPROVE,
    ("POST", "/v1/rules/{rule_id}:set-share"): _APPROVE,
    ("GET", "/v1/drafts/{rule_id}"): _DRAFT,
    ("PUT", "/v1/drafts/{rule_id}"): _DRAFT,
    ("DELETE", "/v1/drafts/{rule_id}"): _DRAFT,
    ("GET", "/v1/approvals"): _READ,
    ("POST", "/v1/approvals"): _DRAFT,
    ("GET", "/v1/approvals/{number}"): _READ,
    ("GET", "/v1/approvals/{number}/proof"): _READ,
    ("POST", "/v1/approvals/{number}:approve"): _APPROVE,
    ("POST", "/v1/approvals/{number}:reject"): _APPROVE,
    ("GET", "/v1/jobs"): _DRAFT,
    ("GET", "/v1/jobs/{job_id}"): _DRAFT,
    ("DELETE", "/v1/jobs/{job_id}"): _DRAFT,
    ("GET", "/v1/objectives"): _READ,
    ("GET", "/v1/health/pipeline"): _READ,
    ("GET", "/v1/audit"): _ADMIN,
}
