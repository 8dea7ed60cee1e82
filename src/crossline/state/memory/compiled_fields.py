"""Access to declared fields in compiled code: how numba types and compiles the functions of ``fields``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.typeconv import Conversion
from numba.core.typing import signature
from numba.extending import lower_builtin, lower_cast, models, register_model, type_callable, typeof_impl

from crossline.basics.kernels.part import CHECKED
from crossline.state.memory.compiled_checks import generate_look_up
from crossline.state.memory.declarations import F64, I32, Declared, Kind, Reach
from crossline.state.memory.fields import address, get, load, put, store

_I64, _F64 = ir.IntType(64), ir.DoubleType()
# How many numbers lead to a value of each form.
_INDEXES = {"word": (0,), "address": (0,), "array": (0, 1), "row": (1,), "part": (2,), "item": ()}


class Named(types.Type):  # type: ignore[misc]
    """The type of one declared name."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        super().__init__(name=f"declared({reach})")

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:  # noqa: ARG002
        """To its number, or its offset."""
        return Conversion.promote if other == types.int64 else None


@register_model(Named)
class _NamedModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, named: Any) -> None:
        super().__init__(manager, named, _I64)


@typeof_impl.register(Declared)
def _typeof(value: Declared, purpose: Any) -> Named:  # noqa: ARG001
    return Named(value.reach)


@lower_constant(Named)  # type: ignore[untyped-decorator]
def _constant(context: Any, builder: Any, named: Any, value: int) -> Any:  # noqa: ARG001
    return _I64(int(value))


@lower_cast(Named, types.int64)  # type: ignore[untyped-decorator]
def _as_number(context: Any, builder: Any, named: Any, whole: Any, value: Any) -> Any:  # noqa: ARG001
    return value


def _value_type(kind: Kind) -> Any:
    return types.float64 if kind is F64 else types.int64


def _checked(reach: Any, count: int, what: str) -> Reach:
    """That a name leads somewhere with ``count`` numbers, as ``what`` has it."""
    if not isinstance(reach, Named):
        raise TypingError(f"{what} of {reach}: expected a declared name")
    if count not in _INDEXES[reach.reach.form]:
        raise TypingError(f"{what} {reach.reach.name}, with {count} numbers: expected {_INDEXES[reach.reach.form]}")
    return reach.reach


def _fits(reach: Reach, value: Any) -> Any:
    """The type that ``value`` is written as."""
    if reach.kind is not F64 and not isinstance(value, types.Integer | types.Boolean | Named):
        raise TypingError(f"put {reach.name}: found {value}, expected {reach.kind.name}")
    return _value_type(reach.kind)


@type_callable(get)  # type: ignore[untyped-decorator]
def _type_get(context: Any) -> Callable[..., Any]:  # noqa: ARG001
    def typer(h: Any, place: Any, i: Any = None, k: Any = None) -> Any:  # noqa: ARG001
        count = sum(each is not None for each in (i, k))
        reach = _checked(place, count, "get")
        if reach.form == "address":
            raise TypingError(f"get {reach.name}: it is an address, ask for it as such")
        return signature(_value_type(reach.kind), types.int64, place, *[types.int64] * count)

    return typer


@type_callable(address)  # type: ignore[untyped-decorator]
def _type_address(context: Any) -> Callable[..., Any]:  # noqa: ARG001
    def typer(h: Any, place: Any, i: Any = None, k: Any = None) -> Any:  # noqa: ARG001
        count = sum(each is not None for each in (i, k))
        _checked(place, count, "address")
        return signature(types.int64, types.int64, place, *[types.int64] * count)

    return typer


@type_callable(put)  # type: ignore[untyped-decorator]
def _type_put(context: Any) -> Callable[..., Any]:  # noqa: ARG001
    def typer(h: Any, place: Any, a: Any, b: Any = None, c: Any = None) -> Any:  # noqa: ARG001
        given = [each for each in (a, b, c) if each is not None]
        reach = _checked(place, len(given) - 1, "put")
        if reach.fixed:
            raise TypingError(f"put {reach.name}: it stays as it is while the kernel runs")
        return signature(types.none, types.int64, place, *[types.int64] * (len(given) - 1), _fits(reach, given[-1]))

    return typer


@type_callable(load)  # type: ignore[untyped-decorator]
def _type_load(context: Any) -> Callable[..., Any]:  # noqa: ARG001
    def typer(item: Any, place: Any) -> Any:  # noqa: ARG001
        return signature(_value_type(place.reach.kind), types.int64, place)

    return typer


@type_callable(store)  # type: ignore[untyped-decorator]
def _type_store(context: Any) -> Callable[..., Any]:  # noqa: ARG001
    def typer(item: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
        return signature(types.none, types.int64, place, _fits(place.reach, value))

    return typer


def _look_up(context: Any, builder: Any, at: Any, size: int, *, store: bool) -> None:
    if CHECKED:
        generate_look_up(context, builder, [at, _I64(size), _I64(int(store))])


def _ir_type(kind: Kind) -> Any:
    return _F64 if kind is F64 else ir.IntType(8 * kind.bytes)


def _read(context: Any, builder: Any, at: Any, kind: Kind, *, fixed: bool) -> Any:
    """The value at an address; integers of every width come as int64."""
    _look_up(context, builder, at, kind.bytes, store=False)
    value = builder.load(builder.inttoptr(at, _ir_type(kind).as_pointer()), align=1)
    if fixed:  # once loaded, it need not be again after a store
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
    if kind is F64 or kind.bytes == 8:
        return value
    return builder.sext(value, _I64) if kind is I32 else builder.zext(value, _I64)


def _write(context: Any, builder: Any, at: Any, kind: Kind, value: Any) -> Any:
    """Store a value at an address, of integers the low bytes."""
    _look_up(context, builder, at, kind.bytes, store=True)
    if kind is not F64 and kind.bytes < 8:
        value = builder.trunc(value, _ir_type(kind))
    builder.store(value, builder.inttoptr(at, _ir_type(kind).as_pointer()), align=1)
    return context.get_dummy_value()


def _word_at(context: Any, builder: Any, h: Any, number: int) -> Any:
    at = builder.add(h, _I64(8 * number))
    return _read(context, builder, at, Kind("int64", 8, None), fixed=True)


def _place(context: Any, builder: Any, h: Any, reach: Reach, index: Any) -> Any:
    """The address of a value."""
    if reach.form in {"word", "address"}:
        return builder.add(h, _I64(8 * reach.number))
    at = _word_at(context, builder, h, reach.number)
    if reach.form == "array":
        if index:
            at = builder.add(at, builder.mul(index[0], _I64(reach.stride)))
        return builder.add(at, _I64(reach.offset))
    at = builder.add(at, builder.mul(index[0], _word_at(context, builder, h, reach.width)))
    if reach.form == "row":
        return builder.add(at, _I64(reach.offset))
    start = _I64(reach.start) if reach.at < 0 else _word_at(context, builder, h, reach.at)
    at = builder.add(builder.add(at, start), builder.mul(index[1], _I64(reach.stride)))
    return builder.add(at, _I64(reach.offset))


@lower_builtin(get, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
def _lower_get(context: Any, builder: Any, signed: Any, args: Any) -> Any:
    reach = signed.args[1].reach
    at = _place(context, builder, args[0], reach, args[2:])
    return _read(context, builder, at, reach.kind, fixed=reach.fixed)


@lower_builtin(put, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
def _lower_put(context: Any, builder: Any, signed: Any, args: Any) -> Any:
    reach = signed.args[1].reach
    at = _place(context, builder, args[0], reach, args[2:-1])
    return _write(context, builder, at, reach.kind, args[-1])


@lower_builtin(address, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
def _lower_address(context: Any, builder: Any, signed: Any, args: Any) -> Any:
    reach = signed.args[1].reach
    if reach.form == "address":
        return _word_at(context, builder, args[0], reach.number)
    return _place(context, builder, args[0], reach, args[2:])


@lower_builtin(load, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
def _lower_load(context: Any, builder: Any, signed: Any, args: Any) -> Any:
    reach = signed.args[1].reach
    return _read(context, builder, builder.add(args[0], _I64(reach.offset)), reach.kind, fixed=False)


@lower_builtin(store, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
def _lower_store(context: Any, builder: Any, signed: Any, args: Any) -> Any:
    reach = signed.args[1].reach
    return _write(context, builder, builder.add(args[0], _I64(reach.offset)), reach.kind, args[2])
