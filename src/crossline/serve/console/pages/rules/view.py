"""The pages of rules."""

from __future__ import annotations

from crossline.serve.console.pages.page import Page, Way
from crossline.serve.console.pages.rules import catalogue, curves, filling, one, samples, trials, writing

PAGE = Page(
    "rules",
    (
        Way("GET", "/rules", catalogue.view),
        Way("GET", "/rules/new", writing.new),
        Way("POST", "/rules/check", writing.check),
        Way("POST", "/rules/fill", filling.fill),
        Way("POST", "/rules/form", filling.apply),
        Way("POST", "/rules/draw", filling.draw),
        Way("POST", "/rules/try", samples.run),
        Way("POST", "/rules/save", writing.save),
        Way("POST", "/rules/prove", writing.prove),
        Way("POST", "/rules/ask", writing.ask),
        Way("GET", "/rules/{rule_id}", one.view),
        Way("GET", "/rules/{rule_id}/{version}", one.view),
        Way("GET", "/rules/{rule_id}/{version}/edit", writing.edit),
        Way("POST", "/rules/{rule_id}/status", one.set_status),
        Way("POST", "/rules/{rule_id}/rollback", one.roll_back),
        Way("GET", "/curves/{job_id}", curves.view),
        Way("GET", "/samples/{job_id}", samples.view),
        Way("POST", "/rules/{rule_id}/share", one.widen),
        Way("GET", "/trials/{job_id}", trials.view),
        Way("POST", "/trials/{job_id}/stop", trials.stop),
    ),
    label="Rules",
    group="Rules",
    tab=True,
)
