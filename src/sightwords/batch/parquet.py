"""Captions as Parquet (extra `parquet`): columns that query engines read; JSONL's fields.

    id          string
    caption     string
    confidence  double, null where the bundle has no confidence model
    words       list of word, prob, precision, box (list of 4 doubles, or null), used
    n_best      list of caption, score, features (map); null unless asked for
    weights     map; null unless asked for

The same records give the same bytes: the columns are fixed, not guessed from the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from sightwords.batch.records import Record
from sightwords.errors import require

ROW_GROUP = 10_000
"""Captions that are held in memory at a time: about 10 MB."""


def write_parquet(stream: BinaryIO, records: Iterable[Record]) -> None:
    """Write records into an open file, a row group at a time."""
    arrow = require_pyarrow()
    schema = _schema(arrow)
    waiting = iter(records)
    with arrow.parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        while rows := [_row(record) for record in islice(waiting, ROW_GROUP)]:
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))


def read_parquet(path: Path) -> Iterator[Record]:
    """The records of a file that `write_parquet` has written."""
    arrow = require_pyarrow()
    with arrow.parquet.ParquetFile(path) as file:
        if file.schema_arrow != _schema(arrow):
            raise ValueError(f"columns {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches():
            yield from map(_record, batch.to_pylist())


def require_pyarrow() -> Any:
    """Pyarrow with its Parquet part, or the command that installs it."""
    arrow = require("pyarrow", extra="parquet", purpose="writing Parquet")
    require("pyarrow.parquet", extra="parquet", purpose="writing Parquet")
    return arrow


def _schema(arrow: Any) -> Any:
    numbers = arrow.map_(arrow.string(), arrow.float64())
    word = arrow.struct(
        [
            ("word", arrow.string()),
            ("prob", arrow.float64()),
            ("precision", arrow.float64()),
            ("box", arrow.list_(arrow.float64())),
            ("used", arrow.bool_()),
        ]
    )
    sentence = arrow.struct(
        [("caption", arrow.string()), ("score", arrow.float64()), ("features", numbers)]
    )
    return arrow.schema(
        [
            ("id", arrow.string()),
            ("caption", arrow.string()),
            ("confidence", arrow.float64()),
            ("words", arrow.list_(word)),
            ("n_best", arrow.list_(sentence)),
            ("weights", numbers),
        ]
    )


def _row(record: Record) -> Record:
    """Arrow's maps are lists of pairs; names that are not Unicode are escaped, as in JSONL."""
    row = {**record, "id": record["id"].encode("utf-8", "backslashreplace").decode("utf-8")}
    if "n_best" in record:
        row["n_best"] = [
            {**sentence, "features": list(sentence["features"].items())}
            for sentence in record["n_best"]
        ]
        row["weights"] = list(record["weights"].items())
    return row


def _record(row: Record) -> Record:
    if row["n_best"] is None:
        return {name: row[name] for name in ("id", "caption", "confidence", "words")}
    sentences = [{**s, "features": dict(s["features"])} for s in row["n_best"]]
    return {**row, "n_best": sentences, "weights": dict(row["weights"])}
