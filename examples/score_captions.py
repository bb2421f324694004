"""Score captions as the COCO tools do, without Java, and test one system against another."""

from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider
from sightwords.metrics.rouge import rouge_l
from sightwords.metrics.score import Comparison

REFERENCES = {
    "cat": ["A cat looks at the camera.", "A tabby cat's face, close up."],
    "cup": ["A cup of coffee on a table.", "Coffee in a red cup beside a spoon."],
}
CAPTIONS = {"cat": "a cat looking at the camera", "cup": "a red cup of coffee on a table"}


def main() -> None:
    pairs = Comparison.of(CAPTIONS, REFERENCES)
    for score in (*bleu(pairs), rouge_l(pairs), cider(pairs)):
        print(f"{score.metric:8} {score.value:.4f}  {score.signature}")
    best = dict(zip(pairs.ids, cider(pairs).per_image.round(2).tolist(), strict=True))
    print("CIDEr per image:", best)


if __name__ == "__main__":
    main()
