"""Who may see and do what in the console. All of it stands in this file, on the API's own scopes."""

from __future__ import annotations

from crossline.serve.access.roles import Need

_PUBLIC = Need(public=True)
_ANYBODY_KNOWN = Need()
_READ = Need(("read:alerts",))
_DECISIONS = Need(("read:alerts", "decide"))
_RECORDS = Need(("read:records",))
_ADMIN = Need(("admin",))
_HOLD, _CASES, _LISTS = Need(("hold",)), Need(("write:cases",)), Need(("write:lists",))
_DEAD, _RESEND = Need(("read:records", "write:records")), Need(("write:records",))
_DRAFT, _APPROVE = Need(("rules:draft",)), Need(("rules:approve",))

# Every page and every act, and what it needs. A page that is not here is refused to everybody (a test checks this).
NEEDS: dict[tuple[str, str], Need] = {
    ("GET", "/"): _ANYBODY_KNOWN,
    ("GET", "/login"): _PUBLIC,
    ("POST", "/login"): _PUBLIC,
    ("GET", "/login/provider"): _PUBLIC,
    ("GET", "/login/callback"): _PUBLIC,
    ("POST", "/logout"): _ANYBODY_KNOWN,
    ("POST", "/logout/everywhere"): _ANYBODY_KNOWN,
    ("GET", "/events"): _DECISIONS,
    ("GET", "/profile"): _ANYBODY_KNOWN,
    ("POST", "/profile"): _ANYBODY_KNOWN,
    ("GET", "/people"): _ADMIN,
    ("POST", "/people/{name}/roles"): _ADMIN,
    ("POST", "/people/{name}/disable"): _ADMIN,
    ("POST", "/people/{name}/enable"): _ADMIN,
    ("GET", "/audit"): _ADMIN,
    ("GET", "/objectives"): _READ,
    ("GET", "/objectives/{pipeline}"): _READ,
    ("GET", "/health/{pipeline}/pipeline"): _READ,
    ("GET", "/queue"): _READ,
    ("GET", "/queue/more"): _READ,
    ("GET", "/queue/news"): _READ,
    ("GET", "/queue/preview/{case_id}"): _READ,
    ("POST", "/queue/act"): _CASES,
    ("POST", "/queue/undo/{at}"): _CASES,
    ("GET", "/cases/{case_id}"): _READ,
    ("GET", "/cases/{case_id}/state"): _READ,
    ("GET", "/cases/{case_id}/small/{alert_id}"): _RECORDS,
    ("GET", "/cases/{case_id}/evidence/{alert_id}"): _RECORDS,
    ("GET", "/cases/{case_id}/changes/{alert_id}"): _RECORDS,
    ("GET", "/cases/{case_id}/records/{alert_id}"): _RECORDS,
    ("POST", "/cases/{case_id}/act"): _CASES,
    ("POST", "/cases/{case_id}/hold"): _HOLD,
    ("GET", "/views"): _READ,
    ("POST", "/views"): _CASES,
    ("POST", "/views/forget"): _CASES,
    ("GET", "/decisions"): _READ,
    ("GET", "/decisions/{decision_id}"): _DECISIONS,
    ("GET", "/components"): _ANYBODY_KNOWN,
    ("GET", "/entities"): _READ,
    ("GET", "/entities/{field}/{value:path}"): _READ,
    ("GET", "/links/{field}/{value:path}"): _READ,
    ("POST", "/entities/hold"): _HOLD,
    ("POST", "/entities/release"): _HOLD,
    ("GET", "/rules"): _READ,
    ("GET", "/rules/new"): _DRAFT,
    ("GET", "/rules/{rule_id}"): _READ,
    ("GET", "/rules/{rule_id}/{version}"): _READ,
    ("GET", "/rules/{rule_id}/{version}/edit"): _DRAFT,
    ("POST", "/rules/check"): _DRAFT,
    ("POST", "/rules/fill"): _DRAFT,
    ("POST", "/rules/form"): _DRAFT,
    ("POST", "/rules/draw"): _DRAFT,
    ("POST", "/rules/try"): _DRAFT,
    ("POST", "/rules/save"): _DRAFT,
    ("POST", "/rules/prove"): _DRAFT,
    ("POST", "/rules/ask"): _DRAFT,
    ("GET", "/curves/{job_id}"): _DRAFT,
    ("GET", "/samples/{job_id}"): _DRAFT,
    ("GET", "/trials/{job_id}"): _DRAFT,
    ("POST", "/trials/{job_id}/stop"): _DRAFT,
    ("POST", "/rules/{rule_id}/status"): _APPROVE,
    ("POST", "/rules/{rule_id}/rollback"): _APPROVE,
    ("POST", "/rules/{rule_id}/share"): _APPROVE,
    ("GET", "/health"): _READ,
    ("GET", "/health/{pipeline}"): _READ,
    ("GET", "/approvals"): _READ,
    ("GET", "/approvals/{number}"): _READ,
    ("GET", "/approvals/{number}/proof.json"): _READ,
    ("POST", "/approvals/versions"): _APPROVE,
    ("POST", "/approvals/{number}/approve"): _APPROVE,
    ("POST", "/approvals/{number}/reject"): _APPROVE,
    ("GET", "/search"): _READ,
    ("GET", "/dead-letters"): _DEAD,
    ("GET", "/dead-letters/{letter_id}"): _DEAD,
    ("POST", "/dead-letters/{letter_id}/resend"): _RESEND,
    ("GET", "/lists"): _READ,
    ("GET", "/lists/{name}"): _READ,
    ("POST", "/lists/{name}/put"): _LISTS,
    ("POST", "/lists/{name}/end"): _LISTS,
    ("GET", "/suppressions"): _READ,
    ("POST", "/suppressions"): _CASES,
    ("POST", "/suppressions/{number}/end"): _CASES,
}
# Requests that a tab sends by itself: they do not keep an idle session alive.
UNATTENDED = frozenset({"/events", "/queue/news", "/cases/{case_id}/state"})
# What writes its own audit events: who asks is not known before, or a record was sent, which the route's event names.
AUDITS_ITSELF = frozenset({"/login", "/dead-letters/{letter_id}/resend"})
# What changes nothing, and is asked as one types.
CHANGES_NOTHING = frozenset({"/rules/check", "/rules/fill"})
