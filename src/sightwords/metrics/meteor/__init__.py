"""METEOR 1.5 for English (Denkowski and Lavie 2014), without Java.

    tokens -> text (normaliser) -> lexicon (stems, synonyms, phrases) -> match -> align -> metric

`metric.py` is the place to start. The tests compare every score with METEOR's own jar.
"""

from sightwords.metrics.meteor.metric import image_statistics, meteor, score

__all__ = ["image_statistics", "meteor", "score"]
