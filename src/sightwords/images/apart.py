"""Decoding in a process of its own, where it can be stopped (`sandbox.py`).

Everything that captions or converts photos decodes through `decode_apart`. Training reads corpora
in bulk and calls `decode` itself, which checks the same limits but cannot stop a hanging decoder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from dataclasses import asdict, replace
from functools import partial
from time import monotonic

import numpy as np
from PIL import Image

from sightwords import sandbox
from sightwords.errors import ImageError, ImageMemoryError, SandboxError
from sightwords.images.decode import ImageSource, content_of, decode, decode_located
from sightwords.images.limits import DEFAULT_LIMITS, MEGABYTE, ImageLimits
from sightwords.images.source import name_of, path_of
from sightwords.types import ImageRef

SMALL_BYTES = 100 * MEGABYTE
"""Enough for nearly all photos. Those that need more are decoded one at a time, so that several
threads together do not take several times the limit."""

FROZEN = bool(getattr(sys, "frozen", False))
"""A program made by PyInstaller or the like has no interpreter to start a helper with: photos are
decoded here, under the limits that a header can be checked for."""

_large = threading.Lock()


def decode_apart(
    source: ImageSource, *, limits: ImageLimits = DEFAULT_LIMITS, whole: bool = False
) -> Image.Image:
    """Like `decode`, but encoded bytes are unpacked in a helper process with limits.

    Pillow images and arrays hold pixels already and are converted here.

    >>> decode_apart(np.zeros((2, 3), dtype=np.uint8)).size
    (3, 2)
    """
    if isinstance(source, (np.ndarray, Image.Image)) or FROZEN:
        return decode(source, limits=limits, whole=whole)
    name = name_of(source)
    path = path_of(source)
    payload = b"" if path is not None else content_of(source, limits, name)
    run = partial(_decoded, path, payload, name, whole=whole)
    if limits.memory_bytes <= SMALL_BYTES:
        return run(limits)
    start = monotonic()
    with contextlib.suppress(ImageMemoryError):
        return run(replace(limits, memory_bytes=SMALL_BYTES))
    left = max(0.5, limits.seconds - (monotonic() - start))  # both attempts share the time
    with _large:
        return run(replace(limits, seconds=left))


def _decoded(
    path: str | None, payload: bytes, name: str, limits: ImageLimits, *, whole: bool
) -> Image.Image:
    try:
        answer, pixels = sandbox.run_apart(
            f"{__name__}:decode_here",
            {"name": name, "path": path, "limits": asdict(limits), "whole": whole},
            payload,
            seconds=limits.seconds,
            memory_bytes=limits.memory_bytes,
        )
    except SandboxError as error:
        if error.reason == "start":  # not caused by this photo
            raise
        kind = ImageMemoryError if error.reason == "memory" else ImageError
        raise kind(f"{name}: {_WHY[error.reason].format(error)}") from error
    try:
        width, height = map(int, answer["size"])
        return Image.frombytes("RGB", (width, height), bytes(pixels))
    except (ValueError, TypeError, KeyError, MemoryError) as error:  # it was taken over
        raise ImageError(f"{name}: {_WHY['crash'].format('its pixels make no sense')}") from error


_WHY = {
    "memory": "cannot be decoded within the limits: {}; shrink the photo, or raise the limit if "
    "you trust it (--set max_memory=MB, ImageLimits.memory_bytes)",
    "seconds": "cannot be decoded: {}; save it in another format, or raise the limit if you trust "
    "it (--set max_seconds=S, ImageLimits.seconds)",
    "crash": "cannot be decoded: {}; the file is damaged or hostile: save it in another format",
    "failed": "cannot be decoded ({}); save it in another format",
}


def prepare() -> None:
    """Start the helper process while something else is loaded."""
    if FROZEN:
        return
    sandbox.prepare(__name__, SMALL_BYTES)


def decode_here(arguments: sandbox.Arguments, payload: bytes) -> sandbox.Answer:
    """In the helper process: the upright pixels, and their size."""
    _one_thread_each()
    name, path = arguments["name"], arguments["path"]
    image = decode_located(
        os.fsdecode(path) if path is not None else ImageRef(name, data=bytes(payload)),
        ImageLimits(**arguments["limits"]),
        name,
        whole=arguments["whole"],
    )
    return {"size": image.size}, image.tobytes()


def _one_thread_each() -> None:
    """The stack of each thread of a decoder would count as memory."""
    from PIL import AvifImagePlugin

    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
