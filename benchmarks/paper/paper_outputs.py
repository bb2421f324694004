"""What the paper's rows need of a trained network, small enough to bring home from a GPU.

    python benchmarks/paper/words_baselines.py ... --rows alexnet-mil vgg16-mil --outputs \
        coco-val='coco-val-*.tar' coco-test=coco-test-00.tar pascal1k=pascal1k-00.tar \
        coco-karpathy-test='coco-karpathy-test-*.tar'
    python benchmarks/paper/paper_outputs.py runs/baselines/alexnet-mil-rows.npz \
        --out described/alexnet

The first trains a network and writes `NAME-rows.npz` and `NAME-dmsm.zip`: the likeliest 40 words
and fc7 of every image of the sets, all scores of 2,000 held-out training images (from which
`early_rows.py draw` makes the detections that a language model is trained on), and a DMSM (preset
`paper`) trained on fc7 of the training images. fc7 is reduced to its first principal components,
since 4,096 numbers an image would not travel; the DMSM is trained on those. About 14 MB a network.

The second unpacks them: a folder a set with `scores.npz` and `features.npz` for `paper_rows.py`,
`held-out/scores.npz`, and `dmsm/`.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from shared import likeliest, save_arrays  # type: ignore[import-not-found]

from sightwords.config import DmsmConfig
from sightwords.corpus.ids import canonical_id
from sightwords.evaluate.word_scores import WordScoreTable, write_word_scores
from sightwords.train.dmsm.image_features import Described, ImageFeatures, describe_images

COMPONENTS = 384
HELD_OUT = 2000
Matrix = npt.NDArray[np.float32]


def bring(
    name: str,
    network: Any,
    train: Any,
    held_out: Any,
    sets: Mapping[str, Any],
    words: tuple[str, ...],
    *,
    out: Path,
    device: str,
    dmsm: DmsmConfig | None = None,
    batch_size: int = 64,
) -> None:
    """Describe the tables of images with a network, train the DMSM, and write both files.

    `network` is a `train.words.network.WordNetwork`, the tables are
    `train.data.image_table.ImageTable`s.
    """

    def seen(table: Any) -> Described:
        return describe_images(network, table, device=device, batch_size=batch_size)

    some = held_out.select(range(min(HELD_OUT, len(held_out))))
    pack(
        name,
        seen(train).features,
        seen(some),
        {part: seen(table) for part, table in sets.items()},
        words,
        dict(zip(train.ids, train.captions, strict=True)),
        out=out,
        device=device,
        dmsm=dmsm,
    )


def pack(
    name: str,
    learned: ImageFeatures,
    held_out: Described,
    sets: Mapping[str, Described],
    words: Sequence[str],
    captions: Mapping[str, Sequence[str]],
    *,
    out: Path,
    device: str,
    dmsm: DmsmConfig | None = None,
) -> None:
    """Write both files: `learned` are features of the training images, with their `captions`."""
    mean, components = principal(learned.features, COMPONENTS, device=device)
    arrays: dict[str, Any] = {"words": np.array(words)}
    for part, found in sets.items():
        arrays[f"{part}/ids"] = np.array([canonical_id(i) for i in found.features.ids])
        arrays[f"{part}/indices"], arrays[f"{part}/probs"] = likeliest(found.image_probs)
        arrays[f"{part}/features"] = reduced(found.features.features, mean, components)
    arrays["held-out/ids"] = np.array([canonical_id(i) for i in held_out.features.ids])
    # Word by word in memory: neighbours are alike, which makes the file smaller.
    arrays["held-out/scores"] = np.asfortranarray(held_out.image_probs.astype(np.float16))
    save_arrays(out / f"{name}-rows.npz", arrays)
    shorter = ImageFeatures(learned.ids, reduced(learned.features, mean, components))
    fit_dmsm(shorter, captions, dmsm or DmsmConfig(), out / f"{name}-dmsm.zip", device=device)


def principal(
    features: npt.NDArray[np.float16], count: int, *, device: str = "cpu"
) -> tuple[Matrix, Matrix]:
    """Mean (D,) and first components (D, count) of (N, T, D / T), of variance 1 over N images.

    >>> points = np.array([[[1, 0]], [[3, 0]], [[2, 0.5]], [[2, -0.5]]], np.float16)
    >>> mean, components = principal(points, 1)
    >>> mean.tolist(), reduced(points, mean, components).ravel().astype(float).round(2).tolist()
    ([2.0, 0.0], [-1.41, 1.41, 0.0, 0.0])
    >>> few = np.array([[[1, 0, 0]], [[3, 0, 0]]], np.float16)  # fewer images than numbers
    >>> reduced(few, *principal(few, 2)).ravel().round(2).tolist()  # the smallest comes to nothing
    [-1.0, 0.0, 1.0, 0.0]
    """
    import torch

    flat = torch.from_numpy(features.reshape(len(features), -1)).to(device).double()
    mean = flat.mean(dim=0)
    centred = (flat - mean) / len(flat) ** 0.5
    if len(flat) < flat.shape[1]:  # the smaller of the two products has the same spectrum
        values, sides = torch.linalg.eigh(centred @ centred.T)
        vectors = centred.T @ sides / values.clamp_min(1e-12).sqrt()
    else:
        values, vectors = torch.linalg.eigh(centred.T @ centred)
    chosen = values.argsort(descending=True)[:count]
    spread = values[chosen]
    there = spread > 1e-6 * values.max()  # fewer images than components leave some empty
    found = torch.where(there, vectors[:, chosen] / spread.clamp_min(1e-12).sqrt(), 0.0)
    largest = found.abs().argmax(dim=0)
    found = found * found.gather(0, largest[None]).sign()  # a sign for each, always the same
    return mean.float().cpu().numpy(), found.float().cpu().numpy()


def reduced(
    features: npt.NDArray[np.float16], mean: Matrix, components: Matrix
) -> npt.NDArray[np.float16]:
    """(N, T, D / T) -> (N, 1, count): one token."""
    flat = features.reshape(len(features), -1).astype(np.float32)
    found: npt.NDArray[np.float16] = ((flat - mean) @ components).astype(np.float16)
    return found[:, None]


def fit_dmsm(
    features: ImageFeatures,
    captions: Mapping[str, Any],
    config: DmsmConfig,
    path: Path,
    *,
    device: str,
) -> None:
    """Train the similarity and write its directory as a zip file."""
    from sightwords.train.dmsm.data import dmsm_data
    from sightwords.train.dmsm.export import export_dmsm
    from sightwords.train.dmsm.training import train_dmsm

    network = train_dmsm(dmsm_data(features, captions, config), config, device=device)
    with tempfile.TemporaryDirectory() as folder:
        export_dmsm(network.cpu(), Path(folder))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(Path(folder).iterdir()):
                archive.write(file, file.name)


def unpack(path: Path, out: Path) -> None:
    """`NAME-rows.npz`, and `NAME-dmsm.zip` beside it, -> folders for `paper_rows.py`."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    words = arrays["words"]
    for part in sorted({key.split("/")[0] for key in arrays if key.endswith("/indices")}):
        ids = arrays[f"{part}/ids"]
        found = {key: arrays[f"{part}/{key}"] for key in ("ids", "indices", "probs")}
        save_arrays(out / part / "scores.npz", {"words": words, **found})
        features = ImageFeatures(tuple(ids.tolist()), arrays[f"{part}/features"])
        features.save(out / part / "features.npz")
    held_out = WordScoreTable(
        tuple(arrays["held-out/ids"].tolist()),
        tuple(words.tolist()),
        arrays["held-out/scores"].astype(np.float64),
    )
    write_word_scores(out / "held-out" / "scores.npz", held_out)
    with zipfile.ZipFile(path.with_name(path.name.replace("-rows.npz", "-dmsm.zip"))) as archive:
        archive.extractall(out / "dmsm")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path, help="NAME-rows.npz; NAME-dmsm.zip lies beside it")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    unpack(args.rows, args.out)
    print(f"{args.out}: {', '.join(sorted(p.name for p in args.out.iterdir()))}")


if __name__ == "__main__":
    main()
