"""The answers of `/v1`, for OpenAPI and for people who write clients."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

LONGEST_SENTENCE = 1000
SAYS_SOMETHING = r"^[\s\S]*[A-Za-z0-9][\s\S]*$"
"""What the text of a sentence to rank must hold somewhere."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorText(_Strict):
    """Why there is no answer."""

    code: str = Field(description="For programs: `unreadable_image`, `busy`, ...")
    message: str = Field(description="For people: what was found and what to do next")


class ErrorAnswer(_Strict):
    """Every answer that is not the one asked for."""

    error: ErrorText


class Word(_Strict):
    """A detected word."""

    word: str
    prob: float = Field(ge=0, le=1, description="That the photograph shows it")
    precision: float = Field(
        ge=0, le=1, description="Of held-out photographs scored this high, the share that have it"
    )
    box: list[float] | None = Field(
        description="x0, y0, x1, y1 in fractions of the upright photograph"
    )


class CaptionWord(Word):
    """A detected word beside a caption."""

    used: bool = Field(description="Whether the caption says it")


class DrawnWord(Word):
    """A word with its heat map."""

    map: str | None = Field(
        description="Rows of bytes in base64, 255 at the peak; size: `map_size_px`"
    )
    peak: float | None = Field(description="Probability of its best region")


class Piece(_Strict):
    """A part of the caption's text."""

    text: str
    word: str | None = Field(description="The content word it is; null for all other words")


class Detail(_Strict):
    """What the page draws."""

    size_px: list[int] = Field(description="Width and height of the upright photograph")
    pieces: list[Piece] = Field(description="Joined, they are the caption")
    words: list[DrawnWord] = Field(description="Offered to the language model, or in the caption")
    map_size_px: list[int] = Field(description="Width and height of every map")
    shown_precision: float = Field(
        ge=0, le=1, description="Words of at least this count as detected"
    )


class Sentence(_Strict):
    """A rival of the caption, with what its score is the sum of."""

    caption: str
    score: float
    features: dict[str, float]


class Failed(_Strict):
    """One photograph of several that could not be read."""

    name: str
    error: ErrorText


class Captioned(_Strict):
    """One photograph with its caption."""

    name: str
    caption: str
    confidence: float | None = Field(description="Probability that the caption is a good one")
    words: list[CaptionWord]
    n_best: list[Sentence] = Field(default=[], description="Best first")
    weights: dict[str, float] = Field(
        default={}, description="A score is the sum of features times these"
    )
    unmet: list[str] = Field(description="Required words that no sentence could take in")
    warnings: list[str] = Field(
        description="For people: wishes that ask for nothing, such as a misspelt forbidden word"
    )
    detail: Detail | None = None


class CaptionAnswer(_Strict):
    """In the order of the request."""

    images: list[Captioned | Failed]


class Worded(_Strict):
    """One photograph with its detected words, most precise first."""

    name: str
    min_precision: float
    words: list[Word]


class WordsAnswer(_Strict):
    """In the order of the request."""

    images: list[Worded | Failed]


class RankedSentence(_Strict):
    """A sentence and how well it fits."""

    sentence: str
    place: int = Field(ge=0, description="Its place in the request, from 0")
    score: float = Field(description="Similarity with the photograph, -1 to 1")
    share: float = Field(ge=0, le=1, description="Its probability, if one of these is right")


class Ranked(_Strict):
    """One photograph with all sentences, best first."""

    name: str
    sentences: list[RankedSentence]


class RankAnswer(_Strict):
    """In the order of the request."""

    images: list[Ranked | Failed]


class Health(_Strict):
    """A caption can be made: the model is loaded, and a worker runs."""

    status: str
    workers: int = Field(ge=1, description="Worker processes that can make a caption now")
    version: str
    fingerprint: str = Field(description="Of the model bundle")


def image_body(limits_images: int, *, several: bool = True, sentences: int = 0) -> dict[str, Any]:
    """OpenAPI's description of a body of photographs."""
    binary = {"type": "string", "format": "binary"}
    most = limits_images if several else 1
    images = {"type": "array", "items": binary, "minItems": 1, "maxItems": most}
    properties: dict[str, Any] = {"image": images}
    if sentences:
        text = {"type": "string", "maxLength": LONGEST_SENTENCE, "pattern": SAYS_SOMETHING}
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
    if not sentences:  # a bare photograph has no room for them
        for kind in ("image/jpeg", "image/png", "image/webp", "application/octet-stream"):
            content[kind] = {"schema": binary}
    return {"requestBody": {"required": True, "content": content}}
