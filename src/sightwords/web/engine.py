"""What a worker does: photographs and wishes -> answers that can go out as JSON.

`Engine.answers` takes photographs one by one, so that an answer does not depend on whose photograph
was asked about beside it. It remembers the word scores of the last few photographs by the SHA-256
sum of their bytes, never a pixel of them, so that moving a slider costs no network run.
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
from sightwords.types import DetectedWord, ImageRef, RegionScores
from sightwords.web.detail import detail
from sightwords.web.limits import Limits
from sightwords.web.problems import BROKEN, Problem, problem_of
from sightwords.words.noisy_or import pool

log = logging.getLogger(__name__)

MOST_SENTENCES = 20
"""The longest n-best list that can be asked for."""

Kind = Literal["caption", "words", "rank", "explain"]
Document = dict[str, Any]
Value = Document | bytes
Seen = tuple[Image.Image, RegionScores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One photograph and what is wished of it."""

    kind: Kind
    name: str
    """What messages call the photograph; never a path that is opened."""
    data: bytes
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    min_precision: float | None = None
    n_best: int = 5
    sentences: tuple[str, ...] = ()
    detail: bool = False
    """Whether to add what the page draws: pieces, offered words, heat maps."""


class Engine:
    """A loaded system that answers jobs."""

    def __init__(self, captioner: Captioner, dmsm: Dmsm | None, limits: Limits) -> None:
        """`dmsm` ranks sentences; without it that kind of job is refused."""
        self.captioner, self.dmsm, self.limits = captioner, dmsm, limits
        self.detector = captioner.detector
        self._spoken = spoken = captioner.generator.model.vocabulary
        # All photographs of a request have the same wishes, and so do those of a moved slider.
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
        """From a bundle, the default one if none is named."""
        captioner = load(bundle, threads=threads, n_best=MOST_SENTENCES)
        with open_bundle(bundle) as opened:
            there = "dmsm" in opened.manifest.parts
            dmsm = Dmsm.load(opened.files / "dmsm", threads=threads) if there else None
        return cls(captioner, dmsm, limits or Limits())

    def answers(self, jobs: Sequence[Job]) -> Iterator[Value | Problem]:
        """One for each job, in order, each as soon as it is there."""
        for job in jobs:
            seen = self._look(job)
            yield seen if isinstance(seen, Problem) else self._answer(job, *seen)

    def _look(self, job: Job) -> Seen | Problem:
        """The upright image with its word scores; the network runs if it is a new one."""
        image = self._decode(job)
        if isinstance(image, Problem):
            return image
        key = hashlib.sha256(job.data).digest()
        try:
            regions = self._remembered.get(key) or self.detector(image)
        except SightwordsError:
            log.exception("the network failed")
            return BROKEN
        self._remember(key, regions)
        return image, regions

    def _decode(self, job: Job) -> Image.Image | Problem:
        try:
            # The bytes are given, so the name is a name only: nothing is opened.
            limits = ImageLimits(pixels=self.limits.pixels, memory_bytes=self.limits.memory_bytes)
            return decode_apart(ImageRef(job.name, data=job.data), limits=limits)
        except SightwordsError as error:
            return problem_of(error)

    def _remember(self, key: bytes, regions: RegionScores) -> None:
        self._remembered[key] = regions
        self._remembered.move_to_end(key)
        while len(self._remembered) > self.limits.remembered:
            self._remembered.popitem(last=False)

    def _answer(self, job: Job, image: Image.Image, regions: RegionScores) -> Value | Problem:
        try:
            if job.kind == "words":
                return self._words(job, regions)
            if job.kind == "rank":
                return self._rank(job, regions)
            asked = self.captioner.with_options(
                require=job.require,
                # The others are named in the answer: no client's spelling fills the log.
                forbid=[word for word in split_words(job.forbid) if word in self._spoken],
                min_precision=job.min_precision or 0.0,
            )
            trace = asked.from_regions(image, regions)
            if job.kind == "explain":
                return _png(asked.explain(trace))
            return self._caption(job, trace)
        except SightwordsError as error:
            problem = problem_of(error)
            if problem is BROKEN:
                log.exception("could not answer")
            return problem
        except Exception:  # a bug of ours must cost one answer, not the worker
            log.exception("could not answer")
            return BROKEN

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
            document["detail"] = detail(trace, self.detector)
        return document

    def _words(self, job: Job, regions: RegionScores) -> Document:
        scores = pool(regions)
        found = self.detector.calibrate(scores, regions, threshold=job.min_precision)
        return {
            "name": job.name,
            "min_precision": found.threshold,
            "words": [_word(word) for word in found.words],
        }

    def _rank(self, job: Job, regions: RegionScores) -> Document | Problem:
        if self.dmsm is None or regions.features is None:
            return Problem(404, "no_similarity_model", "this server's bundle has no dmsm/ part")
        tokens = [tokenize(sentence) for sentence in job.sentences]
        for sentence, words in zip(job.sentences, tokens, strict=True):
            if not words:
                return Problem(422, "invalid", f"{sentence[:60]!r} has no words; leave it out")
        scores = self.dmsm.score(regions.features, tokens)
        shares = self.dmsm.shares(scores)
        # Of equal scores the earlier sentence comes first.
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


def _word(word: DetectedWord) -> Document:
    box = word.box
    return {
        "word": word.word,
        "prob": round(word.prob, 5),
        "precision": round(word.precision, 5),
        "box": None if box is None else [round(v, 4) for v in (box.x0, box.y0, box.x1, box.y1)],
    }


def _png(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()
