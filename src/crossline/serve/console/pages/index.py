"""The pages, in the order of the rail. A page is put to work by its line here and its needs in ``access.py``."""

from __future__ import annotations

from crossline.serve.console.pages.approvals.view import PAGE as APPROVALS
from crossline.serve.console.pages.audit.view import PAGE as AUDIT
from crossline.serve.console.pages.case.view import PAGE as CASE
from crossline.serve.console.pages.components.view import PAGE as COMPONENTS
from crossline.serve.console.pages.dead_letters.view import PAGE as DEAD
from crossline.serve.console.pages.decisions.view import PAGE as DECISIONS
from crossline.serve.console.pages.entities.view import PAGE as ENTITIES
from crossline.serve.console.pages.events.view import PAGE as EVENTS
from crossline.serve.console.pages.health.view import PAGE as HEALTH
from crossline.serve.console.pages.home.view import PAGE as HOME
from crossline.serve.console.pages.links.view import PAGE as LINKS
from crossline.serve.console.pages.lists.view import PAGE as LISTS
from crossline.serve.console.pages.login.view import PAGE as LOGIN
from crossline.serve.console.pages.objectives.view import PAGE as OBJECTIVES
from crossline.serve.console.pages.page import Page
from crossline.serve.console.pages.people.view import PAGE as PEOPLE
from crossline.serve.console.pages.pipeline.view import PAGE as PIPELINE
from crossline.serve.console.pages.profile.view import PAGE as PROFILE
from crossline.serve.console.pages.queue.view import PAGE as QUEUE
from crossline.serve.console.pages.rules.view import PAGE as RULES
from crossline.serve.console.pages.search.view import PAGE as SEARCH
from crossline.serve.console.pages.suppressions.view import PAGE as SUPPRESSIONS
from crossline.serve.console.pages.views.view import PAGE as VIEWS

PAGES: tuple[Page, ...] = (
    HOME,
    LOGIN,
    EVENTS,
    QUEUE,
    CASE,
    VIEWS,
    DECISIONS,
    ENTITIES,
    LINKS,
    SEARCH,
    RULES,
    APPROVALS,
    LISTS,
    SUPPRESSIONS,
    HEALTH,
    PIPELINE,
    OBJECTIVES,
    DEAD,
    AUDIT,
    PEOPLE,
    PROFILE,
    COMPONENTS,
)
