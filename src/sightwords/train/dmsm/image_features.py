"""The backbone's features of every image of a table, in one file (section 5.1).

Stage: input of DMSM training. Input: a `WordNetwork` and an `ImageTable`, or an exported `Detector`
and examples. Output: `ImageFeatures` (N, T, D). The backbone is not trained here, so each image
passes through it once; word scores come out of the same pass.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightwords.corpus.ids import canonical_id
from sightwords.errors import ImageError, InputError
from sightwords.files import DAMAGED_ZIP, atomic_path
from sightwords.images import decode
from sightwords.types import Example, FloatArray
from sightwords.words.artefact import usual_whole_token
from sightwords.words.detector import Detector
from sightwords.words.noisy_or import pool

if TYPE_CHECKING:
    from torch import Tensor

    from sightwords.train.data.image_table import ImageTable
    from sightwords.train.words.network import WordNetwork

log = logging.getLogger(__name__)

HalfArray = npt.NDArray[np.float16]
Progress = Callable[[int], None]
"""Called with the number of images done."""


@dataclass(frozen=True)
class ImageFeatures:
    """Tokens that describe each image, in float16: 14 kB per image for 18 x 384.

    >>> features = ImageFeatures(("9", "25"), np.zeros((2, 18, 384), np.float16))
    >>> features.rows(["25", "9"]).tolist(), features.shape
    ([1, 0], (18, 384))
    """

    ids: tuple[str, ...]
    features: HalfArray
    """(N, T, D)."""
    mirrored: HalfArray | None = None
    """(N, T, D) of the mirror images, if training uses them."""
    whole_token: int | None = None
    """Which token describes the image as a whole; None if the detector does not name one."""
    places: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self)
        places = {canonical_id(name): row for row, name in enumerate(self.ids)}
        object.__setattr__(self, "places", places)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, int]:
        """T and D."""
        return int(self.features.shape[1]), int(self.features.shape[2])

    def rows(self, ids: Iterable[str]) -> npt.NDArray[np.int64]:
        """Rows of these images, which must all be here; `7` and `000000000007` are the same."""
        try:
            return np.array([self.places[canonical_id(name)] for name in ids], dtype=np.int64)
        except KeyError as error:
            raise InputError(
                f"no features of image {error.args[0]!r} among {len(self)}; "
                "compute those of the whole corpus"
            ) from None

    def select(self, ids: Iterable[str]) -> ImageFeatures:
        """The features of only these images, in this order."""
        rows = self.rows(ids)
        return ImageFeatures(
            tuple(self.ids[row] for row in rows),
            self.features[rows],
            None if self.mirrored is None else self.mirrored[rows],
            self.whole_token,
        )

    def whole(self, row: int) -> FloatArray:
        """(D,) the token of one image as a whole."""
        return np.asarray(self.features[row, self.whole_place], dtype=np.float32)

    @property
    def whole_place(self) -> int:
        """`whole_token`, or the usual one."""
        said = self.whole_token
        return usual_whole_token(self.features.shape[1]) if said is None else said

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an `.npz` file, not compressed, since features hardly shrink."""
        arrays = {"ids": np.array(self.ids), "features": self.features}
        if self.mirrored is not None:
            arrays["mirrored"] = self.mirrored
        if self.whole_token is not None:
            arrays["whole_token"] = np.array(self.whole_token)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImageFeatures:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            ids = tuple(map(str, arrays["ids"]))
            mirrored, place = arrays.get("mirrored"), arrays.get("whole_token")
            return cls(
                ids,
                arrays["features"].astype(np.float16, copy=False),
                None if mirrored is None else mirrored.astype(np.float16, copy=False),
                None if place is None else int(place.item()),
            )
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        except (OSError, KeyError, *DAMAGED_ZIP) as error:
            raise InputError(
                f"{path}: not a file of image features ({error}); expected an .npz with ids "
                "and features: compute it again"
            ) from error


@dataclass(frozen=True)
class Described:
    """One pass of the network over a table."""

    image_probs: FloatArray
    """(N, V) Eq. 1, as `train.words.validation.score_images` computes it."""
    features: ImageFeatures


def describe_images(
    network: WordNetwork,
    table: ImageTable,
    *,
    device: str = "cpu",
    batch_size: int = 256,
    mirrored: bool = False,
    progress: Progress | None = None,
) -> Described:
    """Word probabilities and features of every image in one pass (two with `mirrored`)."""
    import torch

    from sightwords.train.data.augment import network_input
    from sightwords.train.fit import precision
    from sightwords.train.words.noisy_or import image_prob

    network.eval().to(device)
    scores, plain, flipped = [], [], []
    with torch.no_grad():
        for start in range(0, len(table), batch_size):
            rows = slice(start, start + batch_size)
            pixels = torch.from_numpy(np.array(table.pixels[rows])).to(device)
            content = torch.from_numpy(table.content[rows]).to(device)
            with precision(torch.device(device)):
                output = network(network_input(pixels, content, network.backbone.input))
                if mirrored:
                    turned = _turned(pixels, content)
                    inputs = network_input(turned, content, network.backbone.input)
                    flipped.append(_half(network(inputs).features.cpu().numpy()))
            scores.append(image_prob(output.bag_logits).cpu().numpy())
            plain.append(_half(output.features.cpu().numpy()))
            if progress:
                progress(min(start + batch_size, len(table)))
    features = ImageFeatures(
        table.ids,
        np.concatenate(plain),
        np.concatenate(flipped) if mirrored else None,
        network.backbone.whole_token,
    )
    return Described(np.concatenate(scores), features)


def detector_features(
    detector: Detector,
    examples: Iterable[Example],
    *,
    progress: Progress | None = None,
    on_error: Callable[[str], None] | None = None,
) -> Described:
    """The same from an exported detector, without torch; unreadable images are left out.

    `on_error` gets a message for each of these; by default it is logged as a warning.
    """
    ids: list[str] = []
    scores: list[FloatArray] = []
    features: list[HalfArray] = []
    place: int | None = None
    for example in examples:
        if example.image is None:
            continue
        try:
            image = decode(example.image)
        except ImageError as error:
            (on_error or log.warning)(f"left out {example.id}: {error}")
            continue
        regions = detector(image)
        assert regions.features is not None
        ids.append(example.id)
        scores.append(pool(regions).image_probs)
        features.append(_half(regions.features[None])[0])
        place = regions.whole_token
        if progress:
            progress(len(ids))
    if not ids:
        raise InputError("no image could be decoded, so there are no features; check the corpus")
    found = ImageFeatures(tuple(ids), np.stack(features), whole_token=place)
    return Described(np.stack(scores), found)


def merged(parts: Iterable[ImageFeatures]) -> ImageFeatures:
    """Several files as one; mirrored features are kept if every part has them.

    >>> one = ImageFeatures(("1",), np.zeros((1, 2, 3), np.float16))
    >>> merged([one, ImageFeatures(("2",), np.ones((1, 2, 3), np.float16))]).ids
    ('1', '2')
    """
    several = list(parts)
    shapes = {part.shape for part in several}
    places = {part.whole_place for part in several}
    if len(shapes) != 1 or len(places) != 1:
        raise InputError(
            f"features of shapes {sorted(shapes)} with the whole image in tokens "
            f"{sorted(places)} cannot be merged; compute all with one detector"
        )
    mirrors = [part.mirrored for part in several if part.mirrored is not None]
    return ImageFeatures(
        tuple(name for part in several for name in part.ids),
        np.concatenate([part.features for part in several]),
        np.concatenate(mirrors) if len(mirrors) == len(several) else None,
        places.pop(),
    )


def _half(features: FloatArray) -> HalfArray:
    """(B, F) or (B, T, D) -> (B, T, D) float16; networks of one vector have one token."""
    tokens = features[:, None] if features.ndim == 2 else features
    return tokens.astype(np.float16)


def _turned(pixels: Tensor, content: Tensor) -> Tensor:
    """Mirror each image within its own width, so that padding stays at the right."""
    import torch

    side = pixels.shape[2]
    ruler = torch.arange(side, device=pixels.device)[None]
    width = content[:, :1].to(pixels.device)
    columns = torch.where(ruler < width, width - 1 - ruler, ruler).long()
    index = columns[:, None, :, None].expand(-1, pixels.shape[1], -1, pixels.shape[3])
    return torch.gather(pixels, 2, index)


def _check(found: ImageFeatures) -> None:
    shape = found.features.shape
    if len(shape) != 3 or shape[0] != len(found.ids):
        raise InputError(
            f"features of shape {shape} for {len(found.ids)} images; expected (images, tokens, "
            "units)"
        )
    if not 0 <= (found.whole_token or 0) < shape[1]:
        raise InputError(
            f"token {found.whole_token} is not among the {shape[1]} tokens of each image"
        )
    if found.mirrored is not None and found.mirrored.shape != shape:
        raise InputError(f"mirrored features have shape {found.mirrored.shape}, the others {shape}")
    if len(set(found.ids)) != len(found.ids):
        twice = next(name for name, count in Counter(found.ids).items() if count > 1)
        raise InputError(f"image {twice!r} occurs more than once among the features; keep one")
    for values in (found.features, found.mirrored):
        if values is not None and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=(1, 2))))
            raise InputError(
                f"features of image {found.ids[row]!r} hold NaN or infinity; the network that "
                "made them is damaged or overflows float16"
            )
