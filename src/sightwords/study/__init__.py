"""The human study (section 6.3): people compare two captions of a photograph.

    photographs + captions of A + captions of B
      | pairs, checks     drawn with a seed; which caption is whose stays hidden
      v store             SQLite or PostgreSQL: pairs, judges, showings, votes
      | judging           who sees what next; a vote is written once      <- app, page: the judges'
      | exchange          Mechanical Turk, Label Studio, plain votes      <- out and back in
      v statistics        majority of five, ties split, error bars, Fleiss' kappa
    results               the paper's columns; `power` plans the next study

Votes carry their study's origin. Only those of people fill a column that speaks of people.
"""

from sightwords.study.model import ANSWERS, ORIGINS, Design

__all__ = ["ANSWERS", "ORIGINS", "Design"]
