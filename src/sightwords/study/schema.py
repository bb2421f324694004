"""The database tables of a study, the same in SQLite and PostgreSQL (SQLAlchemy Core).

One database holds one study. A showing is one pair shown to one judge; the vote is written into
it, once. A valid vote needs a slot of its pair. The table `place` has one row per slot, as many as
a pair has judges, and two showings cannot have the same slot. So the database itself limits the
number of valid votes. Excluding a judge frees the slots for others.
"""

from __future__ import annotations

import sqlalchemy as sa

VERSION = 1

metadata = sa.MetaData()

study = sa.Table(
    "study",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("design", sa.Text, nullable=False, comment="JSON of model.Design"),
    sa.CheckConstraint("id = 1", name="one_study"),
)

photo = sa.Table(
    "photo",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("jpeg", sa.LargeBinary, nullable=False),
    sa.Column("references", sa.Text, nullable=False, comment="JSON list of human captions"),
)

pair = sa.Table(
    "pair",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("image", sa.Text, sa.ForeignKey("photo.id"), nullable=False),
    sa.Column("first", sa.Text, nullable=False),
    sa.Column("second", sa.Text, nullable=False),
    sa.Column("is_check", sa.Boolean, nullable=False),
)

judge = sa.Table(
    "judge",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("token", sa.Text, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False, default="", comment="given by a platform"),
    sa.Column("excluded", sa.Text, nullable=False, default="", comment="the reason"),
)

place = sa.Table(
    "place",
    metadata,
    sa.Column("pair_id", sa.Integer, sa.ForeignKey("pair.id"), primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    comment="one row per slot; a pair has as many as judges",
)

showing = sa.Table(
    "showing",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("judge_id", sa.Integer, sa.ForeignKey("judge.id"), nullable=False),
    sa.Column("pair_id", sa.Integer, sa.ForeignKey("pair.id"), nullable=False, index=True),
    sa.Column("slot", sa.Integer, comment="null: check case, or not counted"),
    sa.Column("system_first", sa.Boolean, nullable=False),
    sa.Column(
        "expires", sa.Float, nullable=False, comment="Unix time until which the slot is reserved"
    ),
    sa.Column("choice", sa.Text, comment="the vote: first, same or second"),
    sa.Column("voted", sa.Float, comment="Unix time"),
    sa.UniqueConstraint("judge_id", "pair_id", name="a_judge_sees_a_pair_once"),
    sa.UniqueConstraint("pair_id", "slot", name="a_slot_is_one_showing_s"),
    sa.ForeignKeyConstraint(["pair_id", "slot"], ["place.pair_id", "place.slot"]),
    sa.CheckConstraint("choice IN ('first', 'same', 'second')", name="known_choice"),
)
