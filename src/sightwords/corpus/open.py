"""`open_corpus`: opens a corpus of any format, and says how the format was recognised.

source -> recognised by name, then by its first bytes -> Corpus -> Example, Example, ...
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from sightwords.corpus.problems import Problem, Problems, printable
from sightwords.corpus.recognise import Options, Part, recognise
from sightwords.corpus.records import checked
from sightwords.corpus.sources import listed_image
from sightwords.errors import CorpusError
from sightwords.types import Example

Source = str | os.PathLike[str]


class Corpus:
    """Examples of one or more sources, read lazily; each iteration opens the sources again."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        splits: Sequence[str] = (),
        need_captions: bool = True,
        strict: bool = False,
        allow_urls: bool = False,
        on_problem: Callable[[Problem], None] | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.problems = Problems()
        """Of the latest iteration; filled as it goes."""
        self._splits = frozenset(splits)
        self._need_captions = need_captions
        self._strict = strict
        self._allow_urls = allow_urls
        self._on_problem = on_problem

    def __iter__(self) -> Iterator[Example]:
        problems = self.problems = Problems(strict=self._strict, on_problem=self._on_problem)
        records = chain.from_iterable(part.read(problems) for part in self.parts)
        sound = checked(
            records,
            problems,
            need_captions=self._need_captions,
            ids_unique=all(part.ids_unique for part in self.parts),
        )
        seen: Counter[str] = Counter()
        for example in sound:
            seen[example.split] += 1
            if not self._splits or example.split in self._splits:
                yield _fetchable(example) if self._allow_urls else example
        if not any(seen[split] for split in self._splits or seen):
            raise CorpusError(self._nothing(seen, problems))

    def _nothing(self, seen: Counter[str], problems: Problems) -> str:
        names = ", ".join(part.source for part in self.parts)
        if seen:
            found = ", ".join(f"{split or '(none)'} ({n})" for split, n in seen.most_common())
            wanted = ", ".join(sorted(self._splits))
            return f"{names}: no example has split {wanted}; found: {found}"
        first = next(iter(problems), None)
        return f"{names}: holds no captioned image or text" + (f"; {first}" if first else "")

    def describe(self) -> list[str]:
        """One line per source: the format it was recognised as, and why."""
        lines = (f"{part.source}: {part.format} ({part.reason})" for part in self.parts)
        return [printable(line) for line in lines]

    def __repr__(self) -> str:
        return f"Corpus({'; '.join(self.describe())})"


def open_corpus(
    source: Source | Sequence[Source],
    *,
    images: Source | None = None,
    split: str | Sequence[str] | None = None,
    splits: Source | None = None,
    captions: str | Sequence[str] | None = None,
    image_column: str | None = None,
    id_column: str | None = None,
    encoding: str = "utf-8",
    need_captions: bool = True,
    strict: bool = False,
    allow_urls: bool = False,
    on_problem: Callable[[Problem], None] | None = None,
) -> Corpus:
    """Open a corpus of any format: a file, a folder, a pattern of shards, a URL, `hf:OWNER/NAME`.

    Several sources are read one after another as one corpus.

    - `images`: folder of the images, where it is not the one the format implies.
    - `split`: only these, as the corpus names them (`"train"`, `"train,restval"`).
    - `splits`: for Flickr token files, a folder of split files or Karpathy's JSON.
    - `captions`, `image_column`, `id_column`: columns of a manifest or dataset.
    - `encoding`: of text files.
    - `need_captions`: False lets images without captions through.
    - `allow_urls`: let http and https URLs in a caption file be fetched; otherwise none is.
    - `strict`: the first problem is raised as a CorpusError instead of being noted.
    - `on_problem`: called with each problem as it is met.

    Raises CorpusError when a source is not there or of no known format; while iterating, when
    there is nothing to give.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "text.jsonl"
    ...     _ = path.write_text('{"id": "9", "captions": ["A dog.", " "]}', encoding="utf-8")
    ...     corpus = open_corpus(path)
    ...     [example] = corpus
    >>> example.captions, dict(corpus.problems.counts)
    (('A dog.',), {<Kind.EMPTY_CAPTION: 'empty-caption'>: 1})
    """
    wanted = _listed(split)
    options = Options(
        images=None if images is None else os.fspath(images),
        splits=None if splits is None else os.fspath(splits),
        captions=None if captions is None else _listed(captions),
        image_column=image_column,
        id_column=id_column,
        encoding=encoding,
        need_captions=need_captions,
        hub_split=wanted[0] if len(wanted) == 1 else None,
    )
    several = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not several:
        raise CorpusError("no source given; name a file, folder, pattern or URL")
    try:
        parts = [part for one in several for part in recognise(os.fspath(one), options)]
    except OSError as error:  # a folder that may not be listed, a name that is too long
        raise CorpusError(f"{several[0]}: cannot be read ({error}); check the path") from error
    return Corpus(
        parts,
        splits=wanted,
        need_captions=need_captions,
        strict=strict,
        allow_urls=allow_urls,
        on_problem=on_problem,
    )


def _fetchable(example: Example) -> Example:
    if example.image is None or example.image.fetch:
        return example
    return replace(example, image=listed_image(example.image.location, allow_urls=True))


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return tuple(names.split(",")) if isinstance(names, str) else tuple(names)
