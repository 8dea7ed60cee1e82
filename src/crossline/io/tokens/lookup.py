"""Values that people ask for and those of lists, as the tokens that records have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.streams.sensitive import TOKEN, TokenSettings
from crossline.io.tokens.opening import store_of, tokeniser_of


def key_as_tokens(streams: Mapping[str, StreamSpec], key: Mapping[str, str], *, make: bool) -> dict[str, str]:
    """``key`` with tokens for the values of sensitive fields.

    Args:
        streams: The streams of the pipeline.
        key: Values by field, as texts; a token stays as it is.
        make: Whether a person without a key gets one; else such a value stays as it is: no record has it.

    Raises:
        RetryableError: the token store does not answer.
    """
    return {name: value_as_token(streams, name, value, make=make) for name, value in key.items()}


def value_as_token(streams: Mapping[str, StreamSpec], name: str, value: str, *, make: bool) -> str:
    """As ``key_as_tokens``, of one value. One of a field with a ``person`` stays as it is: the person is not known."""
    spec = next((each for each in streams.values() if name in each.sensitive), None)
    if spec is None or spec.sensitive[name].person is not None or TOKEN.fullmatch(value):
        return value
    tokens = tokeniser_of(spec)
    if tokens is None or spec.tokens is None:
        return value
    if not make and not store_of(spec.tokens).has(spec.domain_of(name), value):
        return value
    return tokens.value(name, value)


def list_tokens(streams: Mapping[str, StreamSpec]) -> dict[str, Callable[[Sequence[str]], list[str]]]:
    """By name of a list of sensitive values, what makes tokens of its values.

    Raises PermanentError where there is no master key.
    """
    found: dict[str, Callable[[Sequence[str]], list[str]]] = {}
    for spec in streams.values():
        tokens = tokeniser_of(spec)
        if tokens is None or spec.tokens is None:
            continue
        for name, domain in spec.tokens.lists.items():
            field = next(
                (each for each in tokens.fields.values() if (each.domain, each.person) == (domain, None)), None
            )
            if field is not None and name not in found:
                found[name] = partial(tokens.values, field.name)
    return found


def destroy_keys(streams: Mapping[str, StreamSpec], name: str, value: str, now_ms: int, *, alone: bool = False) -> bool:
    """Destroy the key of the person that ``value`` of the field ``name`` names; see ``TokenStore.destroy``.

    Args:
        streams: The streams of the pipeline.
        name: A sensitive field without a ``person``, or a field that is the ``person`` of others.
        value: The value as it comes in records, as text; a token does not say whose it is.
        now_ms: Epoch milliseconds.
        alone: Also a field with a ``person``: of records in which that is missing, the value has a key of its own.

    Returns:
        Whether there was a key.

    Raises:
        UsageError: ``value`` is a token, or ``name`` names no person.
        RetryableError: the store does not answer; the same call may succeed later.
    """
    if TOKEN.fullmatch(value):
        raise UsageError(f"field {name}: found a token; expected the value itself: a token does not say whose it is")
    places = _places(streams, name, alone=alone)
    if not places:
        known = sorted({each for spec in streams.values() for each in persons_of(spec)})
        raise UsageError(f"found field {name}; expected one that names a person: {', '.join(known) or 'there is none'}")
    there = [store_of(place).destroy(domain, value, now_ms) for (_, domain), place in places.items()]
    return any(there)


def has_key(streams: Mapping[str, StreamSpec], name: str, value: str) -> bool:
    """Whether ``value`` of the field ``name`` names a person with a key, or has one of its own.

    Raises RetryableError as ``destroy_keys``.
    """
    if TOKEN.fullmatch(value):
        return False
    places = _places(streams, name, alone=True).items()
    return any(store_of(place).has(domain, value) for (_, domain), place in places)


def _places(streams: Mapping[str, StreamSpec], name: str, *, alone: bool) -> dict[tuple[str, str], TokenSettings]:
    """The stores with keys of the persons that a field names, each with the domain of the field."""
    return {
        (spec.tokens.model_dump_json(), spec.domain_of(name)): spec.tokens
        for spec in streams.values()
        if spec.tokens is not None and (name in persons_of(spec) or (alone and name in spec.sensitive))
    }


def persons_of(spec: StreamSpec) -> set[str]:
    """The fields of a stream whose values name persons with keys."""
    return {each.person or name for name, each in spec.sensitive.items()}
