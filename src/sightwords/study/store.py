"""Opens, locks and reads the database of a study: a path for SQLite, a URL for PostgreSQL.

Every write is a transaction that first takes the one lock of the study (`write`), so that
simultaneous judges are served one after another, even by several servers. A commit is on disk
before it is acknowledged: SQLite runs with full syncs, PostgreSQL does so by default.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from sightwords.errors import StudyError
from sightwords.strict_json import loads
from sightwords.study import schema
from sightwords.study.model import Ballot, Design, Judge, Pair, Photo, answer_of

log = logging.getLogger(__name__)

BUSY_SECONDS = 30


class Store:
    """An open study."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name = engine.url.render_as_string(hide_password=True)
        self.design = self._read_design()
        # Waiting writers of SQLite poll; a lock lets those of this process queue instead.
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that excludes all other writers; commits at its end."""
        with self._turn, self.engine.begin() as connection:
            lock(connection)
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database."""
        with self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":  # by default it sees later commits
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _read_design(self) -> Design:
        try:
            with self.engine.connect() as connection:
                if not sa.inspect(connection).has_table("study"):
                    raise StudyError(
                        f"{self.name}: holds no study; create one: sightwords study create"
                    )
                row = connection.execute(sa.select(schema.study)).one_or_none()
        except sa.exc.SQLAlchemyError as error:
            raise _cannot_open(self.name, error) from error
        if row is None:
            raise StudyError(f"{self.name}: the study is incomplete; delete it and create it again")
        if row.version != schema.VERSION:
            raise StudyError(
                f"{self.name}: the study has format {row.version}, and this version of sightwords "
                f"reads format {schema.VERSION}; use the version that created the study"
            )
        try:
            return Design(**loads(row.design))
        except (ValueError, TypeError) as error:
            raise StudyError(
                f"{self.name}: the study is damaged ({error}); restore a backup"
            ) from error


def open_store(where: str) -> Store:
    """Open a study that exists: a path of SQLite, or a URL such as postgresql://..."""
    if "://" not in where and not Path(where).exists():
        raise StudyError(f"{where}: no such study; create one: sightwords study create")
    engine = connect(where)
    try:
        return Store(engine)
    except StudyError:
        engine.dispose()
        raise


def create_store(
    where: str, design: Design, photos: Sequence[Photo], pairs: Sequence[Pair]
) -> Store:
    """Create a study in one transaction; never replaces a study."""
    engine = connect(where)
    name = engine.url.render_as_string(hide_password=True)
    try:
        with engine.begin() as connection:
            if sa.inspect(connection).has_table("study"):
                raise StudyError(
                    f"{name}: this database already holds a study; give another one as STUDY"
                )
            schema.metadata.create_all(connection)
            _fill(connection, design, photos, pairs)
    except sa.exc.SQLAlchemyError as error:
        engine.dispose()
        raise _cannot_open(name, error) from error
    except StudyError:
        engine.dispose()
        raise
    return Store(engine)


def _fill(
    connection: Connection, design: Design, photos: Sequence[Photo], pairs: Sequence[Pair]
) -> None:
    row = {"id": 1, "version": schema.VERSION, "design": json.dumps(asdict(design))}
    connection.execute(sa.insert(schema.study), row)
    connection.execute(
        sa.insert(schema.photo),
        [{"id": p.id, "jpeg": p.jpeg, "references": json.dumps(p.references)} for p in photos],
    )
    connection.execute(
        sa.insert(schema.pair), [{"id": n, **asdict(pair)} for n, pair in enumerate(pairs, start=1)]
    )
    places = [
        {"pair_id": number, "slot": slot}
        for number, pair in enumerate(pairs, start=1)
        if not pair.is_check
        for slot in range(design.judges_per_pair)
    ]
    connection.execute(sa.insert(schema.place), places)


def connect(where: str) -> Engine:
    """An engine for a path or URL; nothing is opened yet."""
    url = f"sqlite:///{where}" if "://" not in where else where
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise StudyError(f"{where!r} is not a path or a database URL: {error}") from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        engine = sa.create_engine(parsed, pool_size=20, connect_args={"timeout": BUSY_SECONDS})
        _make_sqlite_safe(engine)
        return engine
    if backend != "postgresql":
        raise StudyError(f"{backend} is not supported; give a path (SQLite) or postgresql://...")
    try:
        return sa.create_engine(
            parsed.set(drivername="postgresql+psycopg"), pool_size=20, pool_pre_ping=True
        )
    except ModuleNotFoundError as error:
        raise StudyError(
            "PostgreSQL needs the package psycopg; install it with: pip install 'sightwords[study]'"
        ) from error


def _make_sqlite_safe(engine: Engine) -> None:
    """Real transactions, foreign keys, and full syncs."""

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions itself
        cursor = connection.cursor()
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")


def lock(connection: Connection) -> None:
    """Take the study's lock until the transaction ends.

    PostgreSQL locks the row of the study. In SQLite, an update without effect waits for the one
    write lock; nothing was read before it, so the transaction sees the latest state.
    """
    if connection.dialect.name == "sqlite":
        connection.execute(sa.update(schema.study).values(id=schema.study.c.id))
    else:
        connection.execute(sa.select(schema.study.c.id).with_for_update())


def read_judges(connection: Connection) -> list[Judge]:
    """Every judge, in the order of creation."""
    rows = connection.execute(sa.select(schema.judge).order_by(schema.judge.c.id))
    return [Judge(r.id, r.token, r.name, r.excluded) for r in rows]


def read_pairs(connection: Connection) -> dict[int, Pair]:
    """Every pair and check case by number."""
    rows = connection.execute(sa.select(schema.pair).order_by(schema.pair.c.id))
    return {r.id: Pair(r.image, r.first, r.second, r.is_check) for r in rows}


def read_references(connection: Connection) -> dict[str, tuple[str, ...]]:
    """Human captions by image, without those in pairs."""
    rows = connection.execute(sa.select(schema.photo.c.id, schema.photo.c.references))
    return {row.id: tuple(loads(row.references)) for row in rows}


def read_ballots(connection: Connection) -> list[Ballot]:
    """The valid votes: those that have a slot of their pair."""
    table = schema.showing
    rows = connection.execute(
        sa.select(table)
        .where(table.c.choice.is_not(None), table.c.slot.is_not(None))
        .order_by(table.c.pair_id, table.c.slot)
    )
    return [
        Ballot(r.judge_id, r.pair_id, answer_of(r.choice, system_first=r.system_first))
        for r in rows
    ]


def read_photo(connection: Connection, image: str) -> bytes | None:
    """The JPEG of an image."""
    query = sa.select(schema.photo.c.jpeg).where(schema.photo.c.id == image)
    found: bytes | None = connection.execute(query).scalar_one_or_none()
    return found


def _cannot_open(name: str, error: sa.exc.SQLAlchemyError) -> StudyError:
    reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    return StudyError(f"{name}: cannot use the database ({reason}); check the path or URL")
