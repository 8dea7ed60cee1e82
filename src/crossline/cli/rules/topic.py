"""``crossline rules`` on a control topic: publish, set a status, approve, publish a list."""

from __future__ import annotations

import getpass
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.basics.texts.problems import RefusedError
from crossline.cli.terminal.notes import write_lines
from crossline.rule_registry.content import content_of, read_pipeline_in_place
from crossline.rule_registry.directory import logs_in
from crossline.rule_registry.history import History
from crossline.rule_registry.list_file import LIST_BYTES_MAX, SUFFIXES, read_list
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.rule_files import Known
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.hold_placement import check_asked, check_id, stands_already
from crossline.rule_registry.sources.holds import EndWish, HoldWish, hold_name
from crossline.rule_registry.sources.keys import AUTHOR, HOST, WHO, ListKey, key_of
from crossline.rule_registry.sources.principals import ALPHABET, name_problem, principal_of
from crossline.rule_registry.sources.releases import key_text
from crossline.rule_registry.sources.rule_publisher import Message, TopicPublisher, as_if_published
from crossline.rule_registry.sources.topic import TopicPublications, rule_name
from crossline.rules.figure_tables import SharedFigure
from crossline.rules.holds.release import Key

if TYPE_CHECKING:
    from crossline.basics.message import TopicMessage
    from crossline.io.kafka.control import ControlTopicReader, ControlTopicWriter
    from crossline.rules.base import Status
    from crossline.settings.config import PipelineConfig
    from crossline.settings.sources import ControlTopic, TopicPlace

WAIT_S = 20.0
PIPELINE = Path("pipeline.yaml")
_LOADED = "effective when a pipeline loads it; a running one does within two seconds"
As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="NAME", help="Name of the publisher; by default the Kafka user, else the user of this machine."
    ),
]
PipelineFile = Annotated[Path, typer.Option("--pipeline", help="Pipeline file, which names the topic.")]


@dataclass(frozen=True, slots=True)
class OpenControlTopic:
    """A control topic that is open, and who is at it."""

    config: PipelineConfig
    settings: ControlTopic
    who: str
    reader: ControlTopicReader
    writer: ControlTopicWriter
    host: str = field(default_factory=socket.gethostname)

    def files(self) -> Files:
        """The rules and approvals in the topic, by key."""
        publications = TopicPublications(
            self.reader, rule_name, LIST_BYTES_MAX, in_steps=False, strays=False, wait_s=WAIT_S
        )
        publications.begin([], first=True)
        return publications.changed() or {}

    def publisher(self, files: Files) -> TopicPublisher:
        """What may follow ``files``, and the logs that are here."""
        from crossline.settings.sinks import rule_topics

        path = Path(self.config.rules.path)
        logs = [History(events) for each in logs_in(path).values() if (events := read_log(each))]
        figures = Path(self.config.figures) if self.config.figures else None
        known = Known(self.config.streams, self._lists(), rule_topics(self.config.sinks), path, figures)
        return TopicPublisher(files, logs, known)

    def _lists(self) -> list[str] | None:
        """The names of lists, of those that are in a folder: what a topic has is not looked for."""
        from crossline.settings.sources import ControlTopic

        if self.config.lists is None:
            return []
        if isinstance(self.config.lists, ControlTopic):
            return None
        from crossline.rule_registry.lists import lists_in

        return sorted(lists_in(self.config.lists.path))

    def send(self, key: str, value: bytes | None, author: str | None = None) -> int:
        """Its offset. ``author``: whose version it is, where another one published that."""
        headers = {WHO: self.who, HOST: self.host}
        return self.writer.send(key, value, headers if author is None else {**headers, AUTHOR: author})


def goes_to_topic(pipeline: Path | None) -> bool:
    """Whether the rules of the pipeline file come from a topic."""
    if pipeline is None:
        return False
    from crossline.settings.sources import RulesTopic

    return isinstance(read_pipeline_in_place(pipeline).rules, RulesTopic)


def publish_rules(file: Path, pipeline: Path, as_: str | None, *, as_json: bool) -> None:
    """Send the rules of a file, if they are valid successors of those in the topic."""
    with _at(pipeline, as_) as place:
        files = place.files()
        publisher = place.publisher(files)
        messages = publisher.publish(file)
        offsets = [_sent(place, publisher, each) for each in messages]
        _check_first(place, files, file, messages, offsets)
        _print(place, messages, offsets, as_json=as_json)


def set_status_there(
    rule_id: str, status: Status, version: int | None, pipeline: Path, as_: str | None, *, as_json: bool
) -> None:
    """Send a version again, under another status."""
    with _at(pipeline, as_) as place:
        publisher = place.publisher(place.files())
        message = publisher.set_status(rule_id, status, version)
        _print(place, [message], [_sent(place, publisher, message)], as_json=as_json)


def set_share_there(
    rule_id: str, share: str, version: int | None, pipeline: Path, as_: str | None, *, as_json: bool
) -> None:
    """Send a version again, for another share of keys."""
    with _at(pipeline, as_) as place:
        publisher = place.publisher(place.files())
        message = publisher.set_share(rule_id, share, version)
        _print(place, [message], [_sent(place, publisher, message)], as_json=as_json)


def approve_there(
    rule_id: str, version: int | None, pipeline: Path, as_: str | None, proof: Any, *, as_json: bool
) -> None:
    """Send the approval of a version, with its ``proof`` if there is one."""
    with _at(pipeline, as_) as place:
        publisher = place.publisher(place.files())
        message = publisher.approve(rule_id, place.who, version, proof)
        _print(place, [message], [_sent(place, publisher, message)], as_json=as_json)


def release_there(
    rule_id: str, key: Key, reason: str, pipeline: Path, as_: str | None, *, as_json: bool, now_ms: int
) -> None:
    """Send that a key is held no more."""
    with _at(pipeline, as_) as place:
        publisher = place.publisher(place.files())
        message = publisher.release(rule_id, key, reason, now_ms)
        offset = _sent(place, publisher, message)
        body = {"rule_id": rule_id, "released": dict(key), "reason": reason}
        if as_json:
            sent = {"topic": place.settings.topic, "key": message.key, "offset": offset, "who": place.who}
            write_lines([orjson.dumps({**body, **sent})])
        else:
            to = f"sent to topic {place.settings.topic} by {place.who}"
            sys.stdout.write(f"{rule_id}, {key_text(key)}: released, {to}; {_LOADED}\n")


def ask_there(wish: HoldWish | EndWish, pipeline: Path, as_: str | None, now_ms: int) -> dict[str, Any]:
    """Send that a key is held, or a hold ends, where it is not there already; what became of it."""
    check_id(wish)
    with _at(pipeline, as_) as place:
        files, key = place.files(), hold_name(wish)
        sent: dict[str, Any] = {"topic": place.settings.topic, "key": key, "who": place.who}
        if stands_already(files.get(key), wish):
            return {**sent, "change": "unchanged"}
        publisher = place.publisher(files)
        check_asked(place.config, publisher.histories or [as_if_published(publisher.rules)], wish, now_ms)
        return {**sent, "offset": place.send(key, wish.to_bytes())}


def publish_list(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A list file: NAME.txt, NAME.yaml or NAME.json.")],
    *,
    pipeline: PipelineFile = PIPELINE,
    as_: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Send a list to the control topic of lists, whole, if it is right."""
    config = read_pipeline_in_place(pipeline)
    from crossline.settings.sources import ControlTopic

    if not isinstance(config.lists, ControlTopic):
        raise UsageError(f"{pipeline}: found no lists: {{kind: kafka, …}}; put the file into the folder of lists")
    key = key_of(str(ListKey(file.name)))
    if key is None or not file.name.endswith(SUFFIXES):
        raise UsageError(f"found file {file.name}; expected a name that ends in {', '.join(SUFFIXES)}")
    content = content_of(file, LIST_BYTES_MAX)
    entries = read_list(str(file), content)
    with _open(config, config.lists, as_) as place:
        place.files()  # raises what is wrong with the topic
        offset = place.send(str(key), content.data)
        row = {"list": file.name.rpartition(".")[0], "entries": len(entries), "topic": place.settings.topic}
        if as_json:
            write_lines([orjson.dumps({**row, "key": str(key), "offset": offset, "who": place.who})])
        else:
            sys.stdout.write(f"list {row['list']}: {len(entries):,} entries, sent to topic {row['topic']}\n")


@contextmanager
def _at(pipeline: Path, as_: str | None) -> Iterator[OpenControlTopic]:
    config = read_pipeline_in_place(pipeline)
    from crossline.settings.sources import RulesTopic

    if not isinstance(config.rules, RulesTopic):
        raise UsageError(
            f"{pipeline}: found rules of kind {config.rules.kind}; expected {{kind: kafka, brokers: …, topic: …}}"
        )
    with _open(config, config.rules, as_) as place:
        yield place


@contextmanager
def _open(config: PipelineConfig, settings: ControlTopic, as_: str | None) -> Iterator[OpenControlTopic]:
    from crossline.io.kafka.control import ControlTopicReader, ControlTopicWriter
    from crossline.runtime.changes.publications import client_of

    client = client_of(settings)
    who, _ = publisher(settings, as_)
    reader = ControlTopicReader(client, settings.topic)
    try:
        yield OpenControlTopic(config, settings, who, reader, ControlTopicWriter(client, settings.topic))
    finally:
        reader.close()


def publisher(settings: TopicPlace, as_: str | None) -> tuple[str, str]:
    """Who publishes, and on which machine. Raises UsageError if that is no name."""
    who = (as_ if as_ is not None else settings.security.username or _user()).strip(" ")
    problem = name_problem(who)
    if problem is not None:
        raise UsageError(f"found {problem} as who publishes; expected {ALPHABET}: --as NAME")
    return who, socket.gethostname()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise UsageError("this user has no name; expected who publishes: --as NAME") from None


def _sent(place: OpenControlTopic, publisher: TopicPublisher, message: Message) -> int | None:
    return None if message.value is None else place.send(message.key, message.value, publisher.author(message))


def _check_first(
    place: OpenControlTopic, files: Files, file: Path, messages: Sequence[Message], offsets: Sequence[int | None]
) -> None:
    """Whether another user published the same at the same moment and was first; then his message is put back.

    Pipelines have loaded his, and refuse ours. One that starts after the topic is compacted would find only ours.
    """
    mine = {offset for offset in offsets if offset is not None}
    if not mine:
        return
    between: list[TopicMessage] = []
    deadline_s = time.monotonic() + WAIT_S
    while not between or between[-1].offset < max(mine):
        found, _ = place.reader.read(0.1)
        between += found
        if not found and time.monotonic() > deadline_s:
            text = place.reader.trouble or f"it was not read to its end in {WAIT_S:.0f} s"
            raise SinkError(
                f"what was sent to topic {place.settings.topic} is in the topic; it is unknown whether another message "
                f"was first: {text}. Once the brokers are up, publish it again: that shows it"
            )
    theirs = {name: each for each in between if each.offset not in mine and (name := _name(each)) is not None}
    ours = {each.key for each in messages if each.value is not None}
    met = {name: each for name, each in theirs.items() if name in ours}
    if not met:
        return
    from crossline.rule_registry.content import FileContent

    now = {**files, **{name: FileContent(each.value) for name, each in met.items() if each.value is not None}}
    try:
        place.publisher(now).publish(file)
    except RefusedError as error:
        for name, each in met.items():
            headers = {key: value.decode(errors="replace") for key, value in each.headers if value is not None}
            place.writer.send(name, each.value, headers)
        who = ", ".join(sorted({principal_of(each, WHO)[0] or "another user" for each in met.values()}))
        raise PermanentError(
            f"{who} published the same version at this moment and was first; what was there is put back. {error}"
        ) from None


def _name(message: TopicMessage) -> str | None:
    try:
        return message.key.decode() if message.key is not None else None
    except UnicodeDecodeError:
        return None


def _row(place: OpenControlTopic, message: Message, offset: int | None) -> Mapping[str, Any]:
    rule = message.rule
    kind = "figure_id" if isinstance(rule, SharedFigure) else "rule_id"
    named = {kind: _id(message), "version": rule.version, "status": rule.status, "change": message.change}
    return {**named, "topic": place.settings.topic, "key": message.key, "offset": offset, "who": place.who}


def _print(
    place: OpenControlTopic, messages: Sequence[Message], offsets: Sequence[int | None], *, as_json: bool
) -> None:
    if as_json:
        write_lines(orjson.dumps(_row(place, *each)) for each in zip(messages, offsets, strict=True))
        return
    for each in messages:
        name = f"{_id(each)} version {each.rule.version}"
        if each.change == "unchanged":
            text = "is in the topic already; nothing changes"
        elif each.change == "approved":
            text = f"approved by {place.who}"
        else:
            text = f"{each.rule.status}, sent to topic {place.settings.topic} by {place.who}; {_when(place, each)}"
        sys.stdout.write(f"{name}: {text}\n")


def _id(message: Message) -> str:
    return message.rule.figure_id if isinstance(message.rule, SharedFigure) else message.rule.rule_id


def _when(place: OpenControlTopic, message: Message) -> str:
    if isinstance(message.rule, SharedFigure):
        return "rules that are published from now on may name it"
    if message.rule.status == "draft":
        return "a draft is never evaluated"
    if place.config.rules.review != "none" and message.change == "published":
        approve_it = f"crossline rules approve {message.rule.rule_id} --version {message.rule.version}"
        return f"effective once another user approves it: {approve_it}"
    return _LOADED
