"""Every error sightwords raises on purpose, and what each means.

    SightwordsError
    ├── InputError              what the user gave cannot be used
    │   ├── ImageError          one image: missing, unreadable, truncated, too large
    │   │   └── ImageMemoryError    decoding it would take, or took, more memory than allowed
    │   ├── CorpusError         a corpus, shard, manifest or record
    │   ├── ConfigError         a configuration file or value
    │   ├── VocabularyError     a word list that disagrees with what uses it
    │   ├── ScoreError          candidates and references that cannot be compared
    │   └── StudyError          a human study: its store, its pairs, its judges or its votes
    ├── BundleError             a model directory: absent, damaged, of another version
    ├── SandboxError            a helper process reached a limit or crashed
    ├── MissingExtraError       an optional dependency; the message is the install command
    └── ExternalToolError       another program failed, hung or was not found

A message says where, what was found, what was expected and what to do next. The command line
prints it as one line and exits with 1; a traceback means a bug of ours.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType


class SightwordsError(Exception):
    """Base of all errors raised on purpose."""


class InputError(SightwordsError, ValueError):
    """What the user gave cannot be used."""


class ImageError(InputError):
    """One image is missing, unreadable, truncated or too large."""


class ImageMemoryError(ImageError):
    """Decoding one image takes more memory than allowed."""


class CorpusError(InputError):
    """A corpus, shard, manifest or one of its records is bad."""


class ConfigError(InputError):
    """A configuration file or value is bad."""


class VocabularyError(InputError):
    """A word list disagrees with what uses it."""


class ScoreError(InputError):
    """Candidates and references cannot be compared."""


class StudyError(InputError):
    """A human study cannot be made, opened, judged or counted."""


class BundleError(SightwordsError):
    """A model bundle is absent, damaged, or of another version."""


class SandboxError(SightwordsError):
    """A helper process reached a limit or crashed (`sandbox.py`)."""

    def __init__(self, reason: str, message: str) -> None:
        """`reason` is `memory`, `seconds`, `crash`, `start` or `failed`."""
        super().__init__(message)
        self.reason = reason


class ExternalToolError(SightwordsError):
    """Another program failed, hung or was not found."""


class MissingExtraError(SightwordsError, ImportError):
    """An optional dependency is not installed; the message holds the command that installs it."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which command installs it.

    >>> require("math", extra="eval", purpose="arithmetic").sqrt(4.0)
    2.0
    >>> require("no_such_module", extra="train", purpose="training")
    Traceback (most recent call last):
        ...
    sightwords.errors.MissingExtraError: training needs the package 'no_such_module', which is \
not installed; install it with: pip install 'sightwords[train]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or package != error.name.partition(".")[0]:
            raise  # the extra is there, but something it needs is broken: do not hide that
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'sightwords[{extra}]'"
        ) from error


# Control characters, line and paragraph separators, and marks that turn the direction of text.
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")


def on_one_line(text: str) -> str:
    r"""Text for one line of a message: line breaks and other control characters are escaped.

    A photo's name may hold any of them, and a terminal would obey.

    >>> on_one_line("my cat.jpg"), on_one_line("my\ncat.jpg"), on_one_line("\x1b[2Jcat.jpg")
    ('my cat.jpg', 'my\\ncat.jpg', '\\x1b[2Jcat.jpg')
    """
    return _CONTROL.sub(lambda found: repr(found.group())[1:-1], text)


def said_of(error: BaseException, name: str) -> str:
    """What went wrong with one photo, by its name: other photos must not suffer from it.

    >>> said_of(ImageError("is damaged"), "a.jpg")
    'a.jpg: is damaged'
    >>> said_of(MemoryError(), "a.jpg")
    'a.jpg: there is not enough memory for it; shrink the photo, or take it out'
    """
    if isinstance(error, MemoryError):
        return f"{name}: there is not enough memory for it; shrink the photo, or take it out"
    if not isinstance(error, SightwordsError):
        said = " ".join(str(error).split())
        return (
            f"{name}: unexpected {type(error).__name__} ({said:.200}); look at the photo, and "
            "please report this (--verbose shows more)"
        )
    said = str(error)
    return said if name in said or on_one_line(name) in said else f"{name}: {said}"
