"""What a worker does: photos and options -> answers as JSON.

`Engine.answers` processes photos one by one, so that an answer does not depend on the other photos
of the batch. It keeps the word scores of the last few photos under the SHA-256 sum of their bytes,
but no pixels, so that moving the slider does not run the network again.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from PIL import Image

from sightwords.batch.records import caption_record
from sightwords.bundle import open_bundle
from sightwords.errors import SightwordsError
from sightwords.images import ImageLimits, decode_apart
from sightwords.language.constraints import split_words, unknown_words_warning
from sightwords.pipeline import Captioner, Trace, load
from sightwords.rerank.dmsm import Dmsm
from sightwords.text.ptb import tokenize
from sightwords.types import ImageRef, RegionScores
from sightwords.web.caption_detail import caption_detail, word_record
from sightwords.web.errors import INTERNAL, ApiError, api_error, invalid
from sightwords.web.limits import Limits
from sightwords.words.noisy_or import pool

log = logging.getLogger(__name__)

MAX_CANDIDATES = 20
"""The most candidates that a client can ask for."""

Kind = Literal["caption", "words", "rank", "explain"]
Document = dict[str, Any]
Value = Document | bytes
Seen = tuple[Image.Image, RegionScores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One photo and what to do with it."""

    kind: Kind
    name: str
    """Used in messages; never opened as a path."""
    data: bytes
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    min_precision: float | None = None
    n_best: int = 5
    sentences: tuple[str, ...] = ()
    detail: bool = False
    """Whether to add what the page draws: pieces, candidate words, heat maps."""


class Engine:
    """A loaded model that answers jobs."""

    def __init__(self, captioner: Captioner, dmsm: Dmsm | None, limits: Limits) -> None:
        """`dmsm` ranks sentences; without it jobs of kind `rank` get an error."""
        self.captioner, self.dmsm, self.limits = captioner, dmsm, limits
        self.detector = captioner.detector
        self._spoken = spoken = captioner.generator.model.vocabulary
        # All photos of a request have the same options.
        self._unknown_words_warning = lru_cache(maxsize=64)(
            lambda words: unknown_words_warning(words, spoken)
        )
        self._remembered: OrderedDict[bytes, RegionScores] = OrderedDict()

    @classmethod
    def load(
        cls,
        bundle: str | os.PathLike[str] | None = None,
        *,
        limits: Limits | None = None,
        threads: int | None = 1,
    ) -> Engine:
        """From a bundle; the default one if None."""
        captioner = load(bundle, threads=threads, n_best=MAX_CANDIDATES)
        with open_bundle(bundle) as opened:
            there = "dmsm" in opened.manifest.parts
            dmsm = Dmsm.load(opened.files / "dmsm", threads=threads) if there else None
        return cls(captioner, dmsm, limits or Limits())

    def answers(self, jobs: Sequence[Job]) -> Iterator[Value | ApiError]:
        """One answer per job, in order."""
        for job in jobs:
            seen = self._scores(job)
            yield seen if isinstance(seen, ApiError) else self._answer(job, *seen)

    def _scores(self, job: Job) -> Seen | ApiError:
        """The upright image and its word scores, remembered or from the network."""
        image = self._decode(job)
        if isinstance(image, ApiError):
            return image
        key = hashlib.sha256(job.data).digest()
        try:
            regions = self._remembered.get(key) or self.detector(image)
        except SightwordsError:
            log.exception("the network failed")
            return INTERNAL
        self._remember(key, regions)
        return image, regions

    def _decode(self, job: Job) -> Image.Image | ApiError:
        try:
            # With data, the name is only a label: nothing is opened.
            limits = ImageLimits(pixels=self.limits.pixels, memory_bytes=self.limits.memory_bytes)
            return decode_apart(ImageRef(job.name, data=job.data), limits=limits)
        except SightwordsError as error:
            return api_error(error)

    def _remember(self, key: bytes, regions: RegionScores) -> None:
        self._remembered[key] = regions
        self._remembered.move_to_end(key)
        while len(self._remembered) > self.limits.remembered:
            self._remembered.popitem(last=False)

    def _answer(self, job: Job, image: Image.Image, regions: RegionScores) -> Value | ApiError:
        try:
            if job.kind == "words":
                return self._words(job, regions)
            if job.kind == "rank":
                return self._rank(job, regions)
            asked = self.captioner.with_options(
                require=job.require,
                # Unknown words are named in the answer; in the log, clients could fill the disk.
                forbid=[word for word in split_words(job.forbid) if word in self._spoken],
                min_precision=job.min_precision or 0.0,
            )
            trace = asked.from_regions(image, regions)
            if job.kind == "explain":
                return _png(asked.explain(trace))
            return self._caption(job, trace)
        except SightwordsError as error:
            found = api_error(error)
            if found is INTERNAL:
                log.exception("could not answer")
            return found
        except Exception:  # a bug costs one answer, not the worker
            log.exception("could not answer")
            return INTERNAL

    def _caption(self, job: Job, trace: Trace) -> Document:
        caption = trace.caption
        said = {token for ranked in caption.n_best[:1] for token in ranked.hypothesis.tokens}
        wanted = split_words(job.require)
        idle = self._unknown_words_warning(split_words(job.forbid))
        document = {
            "name": job.name,
            **caption_record(caption, n_best=job.n_best),
            "unmet": [word for word in wanted if word not in said],
            "warnings": [idle] if idle else [],
        }
        if job.detail:
            document["detail"] = caption_detail(trace, self.detector)
        return document

    def _words(self, job: Job, regions: RegionScores) -> Document:
        scores = pool(regions)
        found = self.detector.calibrate(scores, regions, threshold=job.min_precision)
        return {
            "name": job.name,
            "min_precision": found.threshold,
            "words": [word_record(word) for word in found.words],
        }

    def _rank(self, job: Job, regions: RegionScores) -> Document | ApiError:
        if self.dmsm is None or regions.features is None:
            return ApiError(404, "no_similarity_model", "this server's bundle has no dmsm/ part")
        tokens = [tokenize(sentence) for sentence in job.sentences]
        for sentence, words in zip(job.sentences, tokens, strict=True):
            if not words:
                return invalid(f"the sentence {sentence[:60]!r} has no words; leave it out").error
        scores = self.dmsm.score(regions.features, tokens)
        shares = self.dmsm.shares(scores)
        # If scores are equal, the earlier sentence comes first.
        order = sorted(range(len(tokens)), key=lambda i: (-float(scores[i]), i))
        return {
            "name": job.name,
            "sentences": [
                {
                    "sentence": job.sentences[i],
                    "place": i,
                    "score": round(float(scores[i]), 5),
                    "share": round(float(shares[i]), 5),
                }
                for i in order
            ],
        }


def _png(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()
