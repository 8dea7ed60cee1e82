"""The pages of rules."""

from __future__ import annotations

from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.rules import catalogue, curves, editor, form_edits, samples, trials, version_page

PAGE = Page(
    "rules",
    (
        PageRoute("GET", "/rules", catalogue.view),
        PageRoute("GET", "/rules/new", editor.new),
        PageRoute("POST", "/rules/check", editor.check),
        PageRoute("POST", "/rules/fill", form_edits.fill),
        PageRoute("POST", "/rules/form", form_edits.apply),
        PageRoute("POST", "/rules/draw", form_edits.draw),
        PageRoute("POST", "/rules/try", samples.run),
        PageRoute("POST", "/rules/save", editor.save),
        PageRoute("POST", "/rules/prove", editor.prove),
        PageRoute("POST", "/rules/ask", editor.ask),
        PageRoute("GET", "/rules/{rule_id}", version_page.view),
        PageRoute("GET", "/rules/{rule_id}/{version}", version_page.view),
        PageRoute("GET", "/rules/{rule_id}/{version}/edit", editor.edit),
        PageRoute("POST", "/rules/{rule_id}/status", version_page.set_status),
        PageRoute("POST", "/rules/{rule_id}/rollback", version_page.roll_back),
        PageRoute("GET", "/curves/{job_id}", curves.view),
        PageRoute("GET", "/samples/{job_id}", samples.view),
        PageRoute("POST", "/rules/{rule_id}/share", version_page.widen),
        PageRoute("GET", "/trials/{job_id}", trials.view),
        PageRoute("POST", "/trials/{job_id}/stop", trials.stop),
    ),
    label="Rules",
    group="Rules",
    tab=True,
)
