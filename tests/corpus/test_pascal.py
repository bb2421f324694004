from __future__ import annotations

from pathlib import Path

from sightwords.corpus import Kind, open_corpus

PAGE = """<html><body><h1>Pascal Sentences</h1><table>
<tr>
<td><img src="aeroplane/a.jpg"></td>
<td><table>
<tr><td> A plane &amp; a hangar. </td></tr>
<tr><td> Two
 lines. </td></tr>
</table></td>
</tr>
<tr><td><img src="bird/b.jpg"></td><td><table><tbody><tr><td>A bird.</td></tr></table></td></tr>
<tr><td><img src="bird/gone.jpg"></td><td><table><tr><td>Gone.</td></tr></table></td></tr>
</table><p>Contact us</p></body></html>"""


def lay_out(folder: Path, images: str, sentences: str, ending: str = ".txt") -> None:
    for place in (images, sentences):
        for name in ("aeroplane", "bird"):
            (folder / place / name).mkdir(parents=True, exist_ok=True)
    for name, group in (("a", "aeroplane"), ("b", "bird")):
        (folder / "images" / f"{name}.jpg").rename(folder / images / group / f"{name}.jpg")
        path = folder / sentences / group / f"{name}{ending}"
        path.write_text(f"One {name}.\nTwo {name}.\n", encoding="utf-8")


def test_the_published_page(folder: Path) -> None:
    lay_out(folder, ".", ".")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    corpus = open_corpus(folder / "index.html")
    examples = {e.id: e for e in corpus}
    assert examples["a"].captions == ("A plane & a hangar.", "Two lines.")
    assert examples["b"].captions == ("A bird.",)
    assert examples["b"].dataset == "pascal1k"
    assert examples["b"].image is not None
    assert examples["b"].image.location.endswith("bird/b.jpg")
    assert [p.where for p in corpus.problems] == [f"{folder / 'index.html'}:11"]


def test_folders_by_class_as_downloaders_write_them(folder: Path) -> None:
    lay_out(folder, "dataset", "sentence", ending="txt")  # one of them forgets the dot
    examples = list(open_corpus(folder))
    assert [(e.id, e.captions) for e in examples] == [
        ("a", ("One a.", "Two a.")),
        ("b", ("One b.", "Two b.")),
    ]
    assert examples[0].dataset == "pascal1k"


def test_text_beside_each_image(folder: Path) -> None:
    images = folder / "images"
    (images / "a.txt").write_text("A dog.\n", encoding="utf-8")
    (images / "b.txt").write_bytes(b"caf\xe9\n\nfine\n")
    (images / "d.txt").write_text("No image.\n", encoding="utf-8")
    (images / "README.txt").write_text("About.\n", encoding="utf-8")
    corpus = open_corpus(images)
    assert [(e.id, e.captions) for e in corpus] == [("a", ("A dog.",)), ("b", ("fine",))]
    assert {str(k): n for k, n in corpus.problems.counts.items()} == {
        "wrong-encoding": 1,
        "missing-image": 1,
        "no-captions": 1,
    }
    assert corpus.problems.first(Kind.NO_CAPTIONS)[0].where.endswith("c.jpg")
