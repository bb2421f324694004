"""METEOR 1.5 for English (Denkowski and Lavie 2014) without Java, and with it.

    tokens -> text (normaliser) -> lexicon (stems, synonyms, phrases) -> match -> align -> metric

`metric.py` is the place to start; `java.py` runs METEOR's own jar instead.
"""

from sightwords.metrics.meteor.java import meteor_java
from sightwords.metrics.meteor.metric import image_statistics, meteor, score

__all__ = ["image_statistics", "meteor", "meteor_java", "score"]
