"""Read your own corpus: a CSV file of photos and captions, its problems, and its words."""

import csv
import tempfile
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.samples import sample_paths
from sightwords.text.vocabulary import Vocabulary

CAPTIONS = {
    "cat.jpg": ["A cat looks at the camera.", "A tabby cat."],
    "coffee.jpg": ["A cup of coffee on a table."],
    "gone.jpg": ["A photo that is not there."],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "photos.csv"
        with manifest.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["image", "caption"])
            rows.writerows([name, text] for name, texts in CAPTIONS.items() for text in texts)
        corpus = open_corpus(manifest, images=sample_paths()[0].parent)
        examples = list(corpus)
    for example in examples:
        print(example.id, example.captions)
    for problem in corpus.problems:
        print("problem:", problem)
    words = Vocabulary.of_captions([c for e in examples for c in e.captions], size=5)
    print("words:", ", ".join(words.words), f"({words.coverage:.0%} of all tokens)")


if __name__ == "__main__":
    main()
