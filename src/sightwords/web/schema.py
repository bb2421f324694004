"""The answers of the REST API, for OpenAPI and for people who write clients."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MAX_SENTENCE_LENGTH = 1000
HAS_WORDS = r"^[\s\S]*[A-Za-z0-9][\s\S]*$"
"""A sentence to rank needs at least one letter or digit."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorText(_Strict):
    """Why there is no result."""

    code: str = Field(description="For programs: `unreadable_image`, `busy`, ...")
    message: str = Field(description="For people: what was found and what to do next")


class ErrorAnswer(_Strict):
    """The body of every error."""

    error: ErrorText


class Word(_Strict):
    """A detected word."""

    word: str
    prob: float = Field(ge=0, le=1, description="Probability that the photo shows it")
    precision: float = Field(
        ge=0, le=1, description="Of validation photos with this probability, the share that show it"
    )
    box: list[float] | None = Field(description="x0, y0, x1, y1 as fractions of the upright photo")


class CaptionWord(Word):
    """A detected word, and whether the caption uses it."""

    used: bool = Field(description="Whether the caption contains it")


class DrawnWord(Word):
    """A word with its heat map."""

    map: str | None = Field(
        description="Rows of bytes in base64, 255 at the peak; size: `map_size_px`"
    )
    peak: float | None = Field(description="Probability of the best region")


class Piece(_Strict):
    """A part of the caption's text."""

    text: str
    word: str | None = Field(description="The content word; null for other text")


class Detail(_Strict):
    """What the page draws."""

    size_px: list[int] = Field(description="Width and height of the upright photo")
    pieces: list[Piece] = Field(description="Joined, they make the caption")
    words: list[DrawnWord] = Field(description="Offered to the language model, or in the caption")
    map_size_px: list[int] = Field(description="Width and height of every map")
    shown_precision: float = Field(
        ge=0, le=1, description="Words with at least this precision count as detected"
    )


class Sentence(_Strict):
    """A candidate with its score and its features."""

    caption: str
    score: float
    features: dict[str, float]


class Failed(_Strict):
    """A photo that could not be read."""

    name: str
    error: ErrorText


class Captioned(_Strict):
    """A photo with its caption."""

    name: str
    caption: str
    confidence: float | None = Field(description="Probability that the caption is good")
    words: list[CaptionWord]
    n_best: list[Sentence] = Field(default=[], description="Best first")
    weights: dict[str, float] = Field(
        default={}, description="A score is the sum of the features times these weights"
    )
    unmet: list[str] = Field(description="Required words that no candidate contains")
    warnings: list[str] = Field(
        description="For people: options without effect, such as a misspelt forbidden word"
    )
    detail: Detail | None = None


class CaptionAnswer(_Strict):
    """In the order of the request."""

    images: list[Captioned | Failed]


class Worded(_Strict):
    """A photo with its detected words, the most precise first."""

    name: str
    min_precision: float
    words: list[Word]


class WordsAnswer(_Strict):
    """In the order of the request."""

    images: list[Worded | Failed]


class RankedSentence(_Strict):
    """A sentence and how well it fits."""

    sentence: str
    place: int = Field(ge=0, description="Its position in the request, from 0")
    score: float = Field(description="Similarity to the photo, -1 to 1")
    share: float = Field(
        ge=0, le=1, description="Its probability if exactly one of the sentences is right"
    )


class Ranked(_Strict):
    """A photo with all sentences, best first."""

    name: str
    sentences: list[RankedSentence]


class RankAnswer(_Strict):
    """In the order of the request."""

    images: list[Ranked | Failed]


class Health(_Strict):
    """The model is loaded and a worker is ready."""

    status: str
    workers: int = Field(ge=1, description="Worker processes that are ready")
    version: str
    fingerprint: str = Field(description="Of the model bundle")


def image_body(limits_images: int, *, several: bool = True, sentences: int = 0) -> dict[str, Any]:
    """A request body of photos, for OpenAPI."""
    binary = {"type": "string", "format": "binary"}
    most = limits_images if several else 1
    images = {"type": "array", "items": binary, "minItems": 1, "maxItems": most}
    properties: dict[str, Any] = {"image": images}
    if sentences:
        text = {"type": "string", "maxLength": MAX_SENTENCE_LENGTH, "pattern": HAS_WORDS}
        properties["sentence"] = {
            "type": "array",
            "items": text,
            "minItems": 1,
            "maxItems": sentences,
        }
    form = {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }
    content: dict[str, Any] = {"multipart/form-data": {"schema": form}}
    if not sentences:  # a body with one bare photo cannot have sentences
        for kind in ("image/jpeg", "image/png", "image/webp", "application/octet-stream"):
            content[kind] = {"schema": binary}
    return {"requestBody": {"required": True, "content": content}}
