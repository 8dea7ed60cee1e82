"""Settings that hold a path: they start at the pipeline file's folder, and an erasure knows each of them.

A new setting of text must be named here: as a path, with what an erasure does about it, or as none.
"""

from __future__ import annotations

import importlib
import pkgutil
import typing
from collections.abc import Iterator
from typing import Any, Literal

import crossline.settings
from crossline.basics.streams.sensitive import TokenSettings
from crossline.settings.config import PATH_KEYS, in_folder, load_pipeline
from crossline.settings.fields import Settings

SECRETS = {"password_file", "ca_file", "cert_file", "key_file", "signing_key_file"}
NO_ROWS = "it has no rows about records"
# By model and setting: the place of an erasure (docs/erasure.md), or why there is none.
PATHS = {
    "ApiSettings.path": "records of stream s from the API",
    "DecisionSettings.path": "decisions on all records",
    "Directory.path": "lists are not reached",
    "EngineSettings.checkpoint": "state log",
    "FilesSettings.path": "files of a source are not reached",
    "JsonlSettings.path": "sink 1: files of JSON lines",
    "JsonlSettings.dead_letters": "sink 1: files of JSON lines",
    "JsonlSettings.decisions": "sink 1: files of JSON lines",
    "LakeSettings.path": "lake tables",
    "PipelineFile.figures": "files of rules are not reached",
    "RulesDirectory.path": "files of rules are not reached",
    "RulesTopic.path": "files of rules are not reached",
    "ServeSettings.path": "ledger of answers and receipts, labels and cases, audit log",
    "ServeSettings.keys": NO_ROWS,
    "ServeSettings.users": NO_ROWS,
    "SloSettings.path": NO_ROWS,
    "SqliteCatalogSettings.path": "lake tables",
    "SqliteSettings.path": "sink 1: SQLite store",
    "TableOfFiles.path": "tables of enrich are not reached",
    "WebhookSettings.parked": "sink 1: parked messages",
}
# Settings of text that hold no path of this machine.
NO_PATHS = {
    *("audience", "brokers", "callback", "client_id", "client_secret_env", "corrections_topic", "currency", "dbname"),
    *("dead_letter_topic", "dsn_env", "endpoint", "field", "fields", "header", "host", "issuer", "keep", "key"),
    *("late_topic", "link", "listen", "master", "metrics", "name", "namespace", "password_env", "prefix", "record"),
    *("refusals_topic", "roles_claim", "schema_name", "sink_topic", "sources", "token_env", "topic", "topics", "uri"),
    *("url", "user", "username", "valid_from", "warehouse"),
    "options",  # of librdkafka, by its own names
    "spark",  # of Spark, by its own names
    "python",  # on other machines
    *("enrich", "policy", "streams"),  # files that are read when the pipeline file is
}


def models() -> list[type[Settings]]:
    for each in pkgutil.walk_packages(crossline.settings.__path__, "crossline.settings."):
        importlib.import_module(each.name)

    def below(model: type[Settings]) -> Iterator[type[Settings]]:
        for each in model.__subclasses__():
            yield each
            yield from below(each)

    return sorted({*below(Settings)}, key=lambda model: model.__name__)


def has_text(annotation: Any) -> bool:
    if annotation is Any or annotation is str:
        return True
    if typing.get_origin(annotation) is Literal:
        return False
    return any(map(has_text, typing.get_args(annotation)))


TEXTS = {
    (f"{model.__name__}.{name}", name)
    for model in models()
    for name, spec in model.model_fields.items()
    if model.__module__.startswith("crossline.") and has_text(spec.annotation)
}


def test_each_setting_of_text_is_a_path_or_is_named_as_none() -> None:
    assert {name for _, name in TEXTS if name not in PATH_KEYS} == NO_PATHS
    assert {name for _, name in TEXTS if name in PATH_KEYS} == PATH_KEYS, "a key that no setting has"
    assert not PATH_KEYS & NO_PATHS


def test_an_erasure_knows_each_path() -> None:
    assert {setting for setting, name in TEXTS if name in PATH_KEYS - SECRETS} == PATHS.keys()


def test_the_store_of_tokens_names_its_paths_itself() -> None:
    names = {name for name, spec in TokenSettings.model_fields.items() if has_text(spec.annotation)}
    assert names == {"path", "master_key_file", "dsn_env", "schema_name", "master_key_env", "lists"}
    moved = TokenSettings(master_key_file="m.key").in_folder("conf")
    assert (moved.path, moved.master_key_file) == ("conf/tokens.db", "conf/m.key")


def test_parked_messages_start_at_the_folder_of_the_pipeline_file() -> None:
    text = """
schema_version: 1
name: p
streams:
  s: {id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
sources: {s: {kind: files, path: in/*.jsonl}}
rules: {kind: directory, path: rules/}
sinks: [{kind: webhook, url: "https://x.example", parked: out/parked.jsonl, password_env: KEY}]
"""
    (sink,) = in_folder(load_pipeline(text, "p.yaml", lambda _: ""), "conf").sinks
    assert getattr(sink, "parked", None) == "conf/out/parked.jsonl"
