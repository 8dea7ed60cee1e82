"""Streams, rules and policies from files."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.streams.schema import load_streams as parse_streams
from crossline.rule_registry.content import read_text
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.composition import bases_of
from crossline.rules.policy.policy import Policy, load_policy
from crossline.rules.ruleset import RuleSet

FilePath = str | PathLike[str]


class Stream:
    """A declared stream: its name, as rules know it, and its shape."""

    def __init__(self, name: str, spec: StreamSpec) -> None:
        self.name = name
        self.spec = spec

    def __repr__(self) -> str:
        return f"Stream({self.name})"


def load_streams(path: FilePath) -> dict[str, Stream]:
    """Read a stream file.

    Args:
        path: the stream.yaml.

    Returns:
        Its streams, by name.

    Raises:
        RefusedError: the file has errors; the message lists all of them with file:line.
        UsageError: it cannot be read.

    Example:
        >>> streams = crossline.load_streams("stream.yaml")
    """
    text = read_text(Path(path))
    return {name: Stream(name, spec) for name, spec in parse_streams(text, str(path)).items()}


def load_rules(
    path: FilePath, streams: Mapping[str, Stream] | None = None, *, figures: FilePath | None = None
) -> RuleSet:
    """Read the rules of a file, or of all rule files of a folder.

    Args:
        path: the file or folder.
        streams: declared streams by name; with them, the fields and types in rules are checked too.
        figures: a folder of shared figures, if they are not next to the rules.

    Returns:
        The rule versions, each with the period in which it judges. Drafts are left out.

    Raises:
        RefusedError: the files have errors; the message lists all of them with file:line.
        UsageError: there are no rules, or a file cannot be read.

    Example:
        >>> rules = crossline.load_rules("rules/", crossline.load_streams("stream.yaml"))
    """
    specs = {name: stream.spec for name, stream in streams.items()} if streams is not None else None
    folder = None if figures is None else Path(figures)
    return RuleSet.from_rules(read_rules(Path(path), Known(specs, figures=folder)))


def stream_of(stream: Stream | FilePath) -> Stream:
    """``stream``, or the only stream of that file. Raises UsageError if the file has several."""
    if isinstance(stream, Stream):
        return stream
    _check_path(stream, "stream", "a stream file, or a Stream of load_streams")
    streams = load_streams(stream)
    if len(streams) != 1:
        raise UsageError(
            f"{stream}: found streams {', '.join(streams)}; expected one; take it from load_streams and pass that"
        )
    return next(iter(streams.values()))


def rules_of(rules: RuleSet | FilePath, stream: Stream) -> RuleSet:
    """``rules``, or those of that file or folder, checked against ``stream``."""
    if isinstance(rules, RuleSet):
        return rules
    _check_path(rules, "rules", "a rule file, a folder, or a RuleSet of load_rules")
    return load_rules(rules, {stream.name: stream})


def policy_of(policy: Policy | FilePath | None) -> Policy | None:
    """``policy``, or that of the file. Raises RefusedError with all errors of the file."""
    if policy is None or isinstance(policy, Policy):
        return policy
    _check_path(policy, "policy", "a policy file, or a Policy")
    return load_policy(read_text(Path(policy)), str(policy))


def _check_path(given: object, argument: str, expected: str) -> None:
    if not isinstance(given, str | PathLike):
        raise UsageError(f"{argument}: found {type(given).__name__}; expected {expected}")


def check_single_stream(rules: RuleSet, stream: Stream) -> None:
    """Check that ``rules`` need records of ``stream`` only. Raises UsageError if they need others."""
    read = sorted({version.rule.source_topic for version in rules.versions})
    if stream.name not in read:
        raise UsageError(f"no rule reads stream {stream.name}; the rules read {', '.join(read) or 'nothing'}")
    for version in rules.versions:
        bases = {base for source in version.rule.reading.sources for base in bases_of(source, rules.heads)}
        beside = sorted(bases - {stream.name})
        if beside and rules.base(version.rule) == stream.name:
            raise UsageError(
                f"rule {version.rule.rule_id} reads {', '.join(beside)} besides {stream.name}; a frame is of one "
                "stream; leave the rule out, or run it in a pipeline or a backtest"
            )
