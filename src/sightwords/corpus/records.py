"""What every reader shares: rows of one image are merged, and every record is checked.

    rows of a manifest or token file -> merged -> (where, Example) -> checked -> Example

A reader yields `Located` pairs, so that a problem found later can still say where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from sightwords.corpus.folder import ImageFolder
from sightwords.corpus.problems import Kind, Problems, silent
from sightwords.types import Example

Located = tuple[str, Example]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a manifest or token file, before its image is looked up."""

    where: str
    id: str
    image: str
    """Name as written; `` when the row names none."""
    captions: tuple[str, ...]
    split: str
    dataset: str


def merged(rows: Callable[[Problems], Iterator[Row]], problems: Problems) -> Iterator[Row]:
    """Join the rows of each image, wherever they stand; images come in order of their last row.

    Two passes: the first notes the last row of each id, so that the second can release an
    image as soon as it is complete. Memory holds the ids and the images still open, not the text.
    """
    last_row: dict[str, int] = {}
    for number, row in enumerate(rows(silent())):
        last_row[row.id] = number
    open_rows: dict[str, Row] = {}
    for number, row in enumerate(rows(problems)):
        row = replace(row, captions=tuple(_sound(row.where, row.id, row.captions, problems)))
        held = open_rows.pop(row.id, None)
        whole = row if held is None else _joined(held, row, problems)
        if number >= last_row.get(row.id, number):
            yield whole
        else:
            open_rows[row.id] = whole
    yield from open_rows.values()  # empty, unless the file changed between the passes


def _joined(first: Row, second: Row, problems: Problems) -> Row:
    if second.image != first.image:
        problems.add(
            Kind.DUPLICATE_ID,
            second.where,
            f"id {second.id!r} names image {second.image!r} here but {first.image!r} "
            f"at {first.where}",
        )
        return first
    if second.split and first.split and second.split != first.split:
        problems.add(
            Kind.MALFORMED_RECORD,
            second.where,
            f"split {second.split!r} of {second.id!r} contradicts {first.split!r} at {first.where}",
        )
        return first
    return replace(
        first,
        captions=first.captions + second.captions,
        split=first.split or second.split,
    )


def with_images(
    rows: Iterable[Row], folder: ImageFolder | None, problems: Problems
) -> Iterator[Located]:
    """Look up each row's image; without a folder, or a name, the row is text."""
    for row in rows:
        image = None
        if folder is not None:
            name = row.image or row.id
            image = folder.image(name)
            if image is None:
                problems.add(Kind.MISSING_IMAGE, row.where, f"no image {name!r} in {folder.root}")
                continue
        yield row.where, Example(row.id, image, row.captions, row.split, row.dataset)


def checked(
    records: Iterable[Located],
    problems: Problems,
    *,
    need_captions: bool = True,
    ids_unique: bool = False,
) -> Iterator[Example]:
    """Let sound examples through, their captions stripped; report and drop what is not.

    `ids_unique` spares the memory of seen ids for readers that number their records themselves.
    """
    seen: set[str] = set()
    for where, example in records:
        names = (example.id, example.split, example.dataset)
        if not all(map(is_text, names)):
            problems.add(Kind.WRONG_ENCODING, where, f"id, split or dataset is not text: {names!a}")
            continue
        if example.id in seen:
            problems.add(Kind.DUPLICATE_ID, where, f"id {example.id!r} was there before")
            continue
        captions = tuple(_sound(where, example.id, example.captions, problems))
        if need_captions and not captions:
            problems.add(Kind.NO_CAPTIONS, where, f"id {example.id!r} has no caption")
            continue
        if not ids_unique:
            seen.add(example.id)
        yield replace(example, captions=captions)


def _sound(
    where: str, image_id: str, captions: tuple[str, ...], problems: Problems
) -> Iterator[str]:
    for number, caption in enumerate(captions, 1):
        place = f"caption {number} of id {image_id!r}"
        stripped = caption.strip()
        if not stripped:
            problems.add(Kind.EMPTY_CAPTION, where, f"{place} is empty")
        elif not is_text(stripped):
            problems.add(Kind.WRONG_ENCODING, where, f"{place} is {_excerpt(stripped)}")
        else:
            yield stripped


def is_text(value: str) -> bool:
    r"""Whether a string can be written as UTF-8: a lone surrogate is a byte that did not decode.

    >>> is_text("café"), is_text(b"caf\xe9".decode("utf-8", "surrogateescape"))
    (True, False)
    """
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _excerpt(text: str) -> str:
    r"""The part of a text around its first undecodable byte, that byte shown as \xNN."""
    at = next(i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff")
    shown = text[max(0, at - 12) : at + 13]
    return repr(shown.encode("utf-8", "surrogateescape" if _escaped(shown) else "replace"))[1:]


def _escaped(text: str) -> bool:
    return all("\udc80" <= c <= "\udcff" for c in text if "\ud800" <= c <= "\udfff")


def captions_of(value: object) -> tuple[str, ...] | None:
    """Captions out of JSON: a string, a list of strings, or None for anything else.

    >>> captions_of("a dog"), captions_of(["a dog", "dogs"]), captions_of([1])
    (('a dog',), ('a dog', 'dogs'), None)
    """
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def text_of(value: object) -> str:
    """An id, split or dataset out of JSON: text as it is, a whole number as digits, else ``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""
