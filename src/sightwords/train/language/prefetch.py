"""Ask the processor for a cell of a table that is needed soon, from code compiled by numba."""

from __future__ import annotations

from typing import Any

from sightwords.errors import require

_PURPOSE = "training language models"
_extending = require("numba.extending", extra="train", purpose=_PURPOSE)
_numba = require("numba", extra="train", purpose=_PURPOSE)
_cgutils = require("numba.core.cgutils", extra="train", purpose=_PURPOSE)
_ir = require("llvmlite.ir", extra="train", purpose=_PURPOSE)

_FOR_WRITING, _KEEP, _DATA = 1, 3, 1


@_extending.intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, cells: Any, row: Any) -> Any:
    """`prefetch(cells, row)`: fetch row `row` (uint64) of contiguous cells (N, 2); no waiting."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.mul(arguments[1], _ir.Constant(arguments[1].type, 2))
        pointer = builder.bitcast(builder.gep(array.data, [place]), _cgutils.voidptr_t)
        number = _ir.IntType(32)
        kind = _ir.FunctionType(_ir.VoidType(), [_cgutils.voidptr_t, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [_cgutils.voidptr_t], kind)
        how = [_ir.Constant(number, value) for value in (_FOR_WRITING, _KEEP, _DATA)]
        builder.call(fetch, [pointer, *how])
        return context.get_dummy_value()

    return _numba.types.void(cells, _numba.types.uint64), generate
