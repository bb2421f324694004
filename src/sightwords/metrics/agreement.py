"""Agreement of a metric with people: Kendall's tau of its values with human judgements.

Two ways to treat ties, which judgements on a scale of four are full of: tau_b (Kendall 1945)
discounts pairs tied on either side, tau_c (Stuart 1953) allows for scales of different size.
Flickr8k-Expert is usually reported as tau_c, Flickr8k-CrowdFlower as tau_b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError, require


@dataclass(frozen=True, slots=True)
class Agreement:
    """Rank correlation of metric values with judgements, each in [-1, 1]."""

    tau_b: float
    tau_c: float
    judgements: int


def agreement(values: npt.ArrayLike, judgements: npt.ArrayLike) -> Agreement:
    """Kendall's tau_b and tau_c of metric values with the judgements of the same captions.

    A caption judged by several people appears once for each of them. A constant side has no
    order to agree with and is refused.

    >>> found = agreement([0.1, 0.4, 0.3, 0.9], [1, 2, 2, 4])
    >>> round(found.tau_b, 3), round(found.tau_c, 3)
    (0.913, 0.938)
    """
    left, right = np.asarray(values, dtype=np.float64), np.asarray(judgements, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ScoreError(
            f"metric values of shape {left.shape} and judgements of shape {right.shape}; "
            "expected one of each a judged caption"
        )
    for name, side in (("metric values", left), ("judgements", right)):
        if not np.isfinite(side).all():
            raise ScoreError(f"the {name} are not all finite; leave out what was not judged")
        if len(np.unique(side)) < 2:
            raise ScoreError(f"the {name} are all equal, or fewer than two: no order to compare")
    stats = require("scipy.stats", extra="eval", purpose="Kendall's tau")
    return Agreement(
        tau_b=float(stats.kendalltau(left, right, variant="b").statistic),
        tau_c=float(stats.kendalltau(left, right, variant="c").statistic),
        judgements=len(left),
    )
