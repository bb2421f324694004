"""UIUC PASCAL sentences, in the two layouts that exist.

The authors published one web page, images in one folder per class, sentences in tables:

    <td><img src="aeroplane/2008_000716.jpg"></td> <td><table><tr><td> A plane. </td></tr> ...

Downloaders turn it into one text file per image, one sentence per line, in one folder or by class:

    sentence/aeroplane/2008_000716.txt    dataset/aeroplane/2008_000716.jpg

The second layout also serves for any folder with `NAME.txt` for `NAME.jpg`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from sightwords.corpus.folder import ImageFolder, is_image_name, parent, stem
from sightwords.corpus.problems import Problems
from sightwords.corpus.records import Located, Row, with_images
from sightwords.corpus.sources import read_lines, read_text
from sightwords.types import Example

SENTENCE_FOLDERS = ("sentence", "sentences", "captions")
IMAGE_FOLDERS = ("dataset", "images", "Images", "JPEGImages")
DATASET = "pascal1k"


def read_pascal_page(
    location: str, problems: Problems, *, images: str | None = None, encoding: str = "utf-8"
) -> Iterator[Located]:
    """Examples of the saved web page, in its order."""
    page = _Page(location)
    page.feed(read_text(location, encoding=encoding))
    folder = ImageFolder(images or parent(location))
    rows = (
        Row(f"{location}:{line}", stem(name), name, tuple(captions), "", DATASET)
        for line, name, captions in page.entries
    )
    yield from with_images(rows, folder, problems)


def read_sentence_folder(
    location: str, problems: Problems, *, images: str | None = None, encoding: str = "utf-8"
) -> Iterator[Located]:
    """Examples of a folder of sentence files, sorted by path; images without a file are named."""
    root = Path(location)
    sentences = next((root / n for n in SENTENCE_FOLDERS if (root / n).is_dir()), root)
    pictures = next((root / n for n in IMAGE_FOLDERS if (root / n).is_dir()), root)
    folder = ImageFolder(images or str(pictures))
    dataset = DATASET if sentences != root else root.resolve().name
    described: set[str] = set()
    for path in sorted(filter(is_sentence_file, sentences.rglob("*"))):
        name = _image_stem(path)
        described.add(name)
        lines = (line for _, line in read_lines(str(path), problems, encoding=encoding))
        captions = tuple(line for line in lines if line.strip())
        below = path.parent.relative_to(sentences) / name
        place = _find(folder, below.as_posix())
        row = Row(str(path), name, place or name, captions, "", dataset)
        yield from with_images([row], folder, problems)
    for picture in sorted(Path(folder.root).rglob("*")):
        if is_image_name(picture.name) and picture.stem not in described:
            yield str(picture), Example(picture.stem, None, (), "", dataset)


def is_sentence_file(path: Path) -> bool:
    """A text file, but no read-me; one popular downloader forgets the dot (`2008_000716txt`)."""
    return path.name.endswith("txt") and "readme" not in path.name.lower() and path.is_file()


def _image_stem(path: Path) -> str:
    return path.name.removesuffix("txt").rstrip(".")


def _find(folder: ImageFolder, path_without_ending: str) -> str | None:
    """The image of the same class folder, before one of the same name elsewhere."""
    for ending in (".jpg", ".jpeg", ".png"):
        if (Path(folder.root) / (path_without_ending + ending)).is_file():
            return path_without_ending + ending
    return None


class _Page(HTMLParser):
    """Collects (line, image, sentences) from the page's tables."""

    def __init__(self, location: str) -> None:
        super().__init__(convert_charrefs=True)
        self.location = location
        self.entries: list[tuple[int, str, list[str]]] = []
        self._in_cell = False
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An image opens an entry, a cell may hold a sentence."""
        self._flush()
        source = dict(attrs).get("src")
        if tag == "img" and source:
            self.entries.append((self.getpos()[0], source, []))
        self._in_cell = tag == "td" or (self._in_cell and tag not in ("tr", "table"))

    def handle_endtag(self, tag: str) -> None:
        """The end of a cell is the end of a sentence."""
        self._flush()
        if tag in ("td", "tr", "table"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        """Text in a cell behind an image is a sentence."""
        if self._in_cell and self.entries:
            self._text += data

    def _flush(self) -> None:
        if self._text.strip():
            self.entries[-1][2].append(" ".join(self._text.split()))
        self._text = ""
