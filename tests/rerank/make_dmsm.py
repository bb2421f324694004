"""Makes the tiny similarity model under `data/dmsm`; committed, so that tests need no torch.

    python tests/rerank/make_dmsm.py

Trained on the mean colours that `tests/words/data/colours.onnx` gives as features, with captions
that name the strongest colour.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "data" / "dmsm"
COLOURS = ("red", "green", "blue")


def main() -> None:
    from sightwords.config import DmsmConfig
    from sightwords.train.dmsm.data import dmsm_data
    from sightwords.train.dmsm.export import export_dmsm
    from sightwords.train.dmsm.image_features import ImageFeatures
    from sightwords.train.dmsm.training import train_dmsm

    rng = np.random.default_rng(0)
    strongest = rng.integers(3, size=300)
    features = rng.uniform(0, 0.4, (300, 1, 3))
    features[np.arange(300), 0, strongest] += 0.6
    ids = tuple(map(str, range(300)))
    captions = {
        name: (f"a {COLOURS[c]} wall", f"the wall is {COLOURS[c]}")
        for name, c in zip(ids, strongest, strict=True)
    }
    config = DmsmConfig(
        objective="both_ways", negatives=0, hidden_units=16, semantic_units=8, word_units=8,
        own_words=4, epochs=20, batch_size=50, learning_rate=0.01,
    )  # fmt: skip
    data = dmsm_data(ImageFeatures(ids, features.astype(np.float16)), captions, config)
    print(export_dmsm(train_dmsm(data, config), FOLDER))


if __name__ == "__main__":
    main()
