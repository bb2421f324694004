"""What an ONNX file may not do, found in its bytes before ONNX Runtime sees them.

    refuse_unsafe(data, name)

A network of a bundle is one file of weights and arithmetic. Refused are weights in other files
(ONNX "external data": the sums of a bundle do not cover what lies there, and newer runtimes take
an address in memory for a place), operators that repeat a part as often as the file asks,
functions (24 that each call the next twice unfold to 16 million operators), and operators of other
families than ONNX's and ONNX Runtime's own.

The file is a Protocol Buffers message; a few of its fields are looked at, by number as in
onnx.proto, and the rest is skipped, weights included. No package is needed for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sightwords.errors import BundleError

DEEPEST = 16
"""Graphs inside operators inside graphs."""
MOST_NODES = 100_000
DOMAINS = frozenset(("", "ai.onnx", "com.microsoft"))
REPEATING = frozenset(("Loop", "Scan", "SequenceMap", "BeamSearch", "GreedySearch", "Sampling",
                       "WhisperBeamSearch"))  # fmt: skip

# Message -> field number -> the message inside, for those that lead to a tensor or an operator.
_CHILDREN: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 20: "training"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_FUNCTION = 25
_OPERATOR, _DOMAIN = 4, 7
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


class _DamagedError(Exception):
    """The bytes are not a Protocol Buffers message."""


def refuse_unsafe(data: bytes, name: str) -> None:
    """Raise a `BundleError` unless the network keeps to itself; `name` is what errors call it."""
    nodes = 0
    pending = [("model", 0, len(data), 0)]
    try:
        while pending:
            kind, start, end, depth = pending.pop()
            if depth > DEEPEST * 4:  # node, attribute, graph: a few messages per level
                raise BundleError(f"{name}: is nested too deeply; expected a plain ONNX network")
            nodes += kind == "node"
            if nodes > MOST_NODES:
                raise BundleError(f"{name}: has over {MOST_NODES:,} operators; expected fewer")
            pending.extend(
                (inner, first, last, depth + 1)
                for inner, first, last in _inside(data, kind, start, end, name)
            )
    except _DamagedError as error:
        raise BundleError(
            f"{name}: is not a usable ONNX network ({error}); the file is damaged or incomplete: "
            "copy it again"
        ) from None


def _inside(
    data: bytes, kind: str, start: int, end: int, name: str
) -> Iterator[tuple[str, int, int]]:
    """The messages inside one; what must not be there is refused on the way."""
    children = _CHILDREN[kind]
    for number, first, last in _fields(data, start, end):
        if number in children:
            if first < 0:
                raise _DamagedError(f"field {number} of a {kind} is a number")
            yield children[number], first, last
        elif kind == "tensor" and (
            number == _EXTERNAL_DATA or (number == _DATA_LOCATION and last != 0)
        ):
            raise BundleError(
                f"{name}: keeps weights in another file (ONNX external data), which the sums of a "
                "bundle do not cover; save the network as one file"
            )
        elif kind == "model" and number == _FUNCTION:
            raise BundleError(
                f"{name}: defines functions, which can unfold to billions of operators; export the "
                "network without, or inline them (onnx.inliner)"
            )
        elif kind == "node" and number in (_OPERATOR, _DOMAIN) and first >= 0:
            _refuse_operator(data[first:last].decode("utf-8", "replace"), number, name)


def _refuse_operator(text: str, number: int, name: str) -> None:
    if number == _DOMAIN and text not in DOMAINS:
        raise BundleError(
            f"{name}: has an operator of the family {text!r:.60}; expected ONNX's own operators"
        )
    if number == _OPERATOR and text in REPEATING:
        raise BundleError(
            f"{name}: has the operator {text}, which can run for ever; export the network without"
        )


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, first and last byte of each field; of a number: -1 and its value."""
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:  # others read 32 bits of it, and would see another field
            raise _DamagedError(f"a field has the number {number}")
        if wire == 2:
            length, at = _varint(data, at, end)
            if length > end - at:
                raise _DamagedError("it ends too early")
            yield number, at, at + length
            at += length
        elif wire == 0:
            value, at = _varint(data, at, end)
            yield number, -1, value
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
            if at > end:
                raise _DamagedError("it ends too early")
        else:
            raise _DamagedError(f"wire type {wire} is unknown")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise _DamagedError("it ends too early")
