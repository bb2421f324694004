"""The human study (section 6.3): people compare two captions of a photo.

    model.py      the dataclasses that the other modules exchange
    create.py     START HERE: photos + captions of two systems -> a new study
    draw.py       which captions are compared, and which pairs are check cases
    schema.py     the database tables; store.py opens, locks and reads SQLite or PostgreSQL
    judging.py    which pair a judge gets next; writes each vote once
    server.py     the judges' server; pages.py has its HTML
    rehearsal.py  scripted judges, for simulated studies only
    platforms/    Mechanical Turk, Label Studio, files of votes
    results/      counts, error bars, agreement, tables; plans the size of a study

All votes of a study share its origin (human, simulated, model). Only votes of people go into a
column that is about people.
"""

from sightwords.study.model import ANSWERS, ORIGINS, Design

__all__ = ["ANSWERS", "ORIGINS", "Design"]
