"""Bundles with one thing wrong, correctly sealed: does loading and captioning fail in good order?

    python benchmarks/fuzz_bundles.py --count 2000 --seed 0

Each case takes a whole bundle (a tiny one as the tests make it, or the one with all five parts
inside the package), changes one value, array or byte in one file, writes a `bundle.json` that is
true to the change, loads the bundle and captions a small photo. Good outcomes are a caption with
finite numbers and an error of ours. A traceback, a crash, over 600 MB more memory or over 10
seconds of CPU time is a finding: it is printed with the number of the case, which `--only NUMBER`
repeats.

Cases run in worker processes under limits of the operating system. One that dies is replaced.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sightwords.errors import SightwordsError
from sightwords.worker_process import WorkerProcess

ROOT = Path(__file__).parents[1]
MOST_MEGABYTES = 600
MOST_SECONDS = 10.0
CASES_PER_WORKER = 200

Result = tuple[str, float, int]
"""How it went, seconds and megabytes."""

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 0.5, -0.5, 2**31 - 1, 2**31, -(2**31), 2**63, 2**64, 10**400, 1e30, -1e30, 1e308,
    5e-324, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = ("", "x", "\0", "\n", "\x1b[2J", "\ud800", "../../etc/passwd", "x" * 100_000, "é", "<unk>")
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"x": 1})
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint64", "float16", "float32",
          "float64", "bool", "complex64", "<U3", "S3", "datetime64[s]", "O")  # fmt: skip

Rng = np.random.Generator


# --- one change -------------------------------------------------------------------------------


def change_json(data: bytes, rng: Rng) -> tuple[bytes, str]:
    """One value of a JSON document replaced, removed, added, repeated or wrapped."""
    if rng.random() < 0.1:
        return change_bytes(data, rng)
    document = json.loads(data)
    trails = list(_trails(document))
    # Few keys hold long lists: a random place would nearly always be an element of these.
    short = [t for t in trails if not any(isinstance(k, int) for k in t)] or trails
    trail = _pick(rng, short if rng.random() < 0.6 else trails)
    holder = document
    for key in trail[:-1]:
        holder = holder[key]
    key = trail[-1]
    how = int(rng.integers(6))
    old = holder[key]
    if how <= 2:
        holder[key] = new = _other_value(old, rng)
        told = f"{_shown(trail)}: {old!r:.40} -> {new!r:.40}"
    elif how == 3:
        del holder[key]
        told = f"{_shown(trail)} removed"
    elif how == 4 and isinstance(old, list | dict) and old:
        told = f"{_shown(trail)}: " + _shuffle(old, rng)
    else:
        deep = int(rng.choice([1, 3, 100_000]))
        text = json.dumps(document)
        value = json.dumps(old)
        told = f"{_shown(trail)} wrapped {deep} deep"
        return text.replace(value, "[" * deep + value + "]" * deep, 1).encode(), told
    return json.dumps(document).encode(), told


def change_toml(data: bytes, rng: Rng) -> tuple[bytes, str]:
    """One value of a TOML file replaced, or a table that nests for ever added."""
    lines = data.decode().splitlines()
    places = [i for i, line in enumerate(lines) if " = " in line]
    if not places or rng.random() < 0.1:
        return data + b"\nx = " + b"[" * 100_000, "nested 100000 deep"
    # What captioning reads stands in two tables: look there more often.
    here = [i for i in places if _table(lines, i) in ("calibration", "generation")]
    i = _pick(rng, here if here and rng.random() < 0.7 else places)
    key = lines[i].split(" = ")[0]
    new = str(_pick(rng, ("-1", "0", "1", "2147483648", "1e308", "nan", "inf", '"x"', "[]", "true",
                          "{}", "9" * 5000, "100000", "0.5", "1000")))  # fmt: skip
    lines[i] = f"{key} = {new}"
    return "\n".join(lines).encode(), f"[{_table(lines, i)}] {key} = {new:.20}"


def change_npz(data: bytes, rng: Rng) -> tuple[bytes, str]:
    """One array of another type or shape, with odd values, or in another order; or odd members."""
    if rng.random() < 0.1:
        return change_bytes(data, rng)
    with np.load(io.BytesIO(data)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = _pick(rng, list(arrays))
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        warnings.simplefilter("ignore")
        told = _changed_array(arrays, name, rng)
        for member, value in arrays.items():
            raw = value if isinstance(value, bytes) else _npy(value)
            target.writestr(f"{member}.npy", raw, compresslevel=1)
            if told == "twice" and member == name:
                target.writestr(f"{member}.npy", raw, compresslevel=1)
    return out.getvalue(), f"{name}: {told}"


def change_bytes(data: bytes, rng: Rng) -> tuple[bytes, str]:
    """Bits flipped, a part cut, zeroed, repeated or made of chance."""
    work = bytearray(data)
    at = (
        int(rng.integers(len(work)))
        if rng.random() < 0.5
        else int(rng.integers(min(len(work), 4000)))
    )
    length = int(rng.choice([1, 1, 4, 16, 1000]))
    how = int(rng.integers(6))
    if how == 0:
        work[at] ^= 1 << int(rng.integers(8))
    elif how == 1:
        del work[at : at + length]
    elif how == 2:
        work[at : at + length] = bytes(len(work[at : at + length]))
    elif how == 3:
        work[at : at + length] = rng.bytes(len(work[at : at + length]))
    elif how == 4:
        work[at:at] = work[at : at + length]
    else:
        del work[at:]
    return bytes(work), f"bytes: change {how} at {at} over {length}"


CHANGES: dict[str, Callable[[bytes, Rng], tuple[bytes, str]]] = {
    ".json": change_json,
    ".toml": change_toml,
    ".npz": change_npz,
    ".onnx": change_bytes,
}


def _other_value(old: Any, rng: Rng) -> Any:
    if rng.random() < 0.3:
        return _pick(rng, (*NUMBERS, *TEXTS, *OTHERS))
    if isinstance(old, bool) or old is None:
        return _pick(rng, OTHERS)
    if isinstance(old, int | float):
        near = (old * 2, old * 10, old + 1, -old, old / 3, str(old))
        return _pick(rng, (*NUMBERS, *near))
    if isinstance(old, str):
        return _pick(rng, TEXTS)
    return _pick(rng, (*OTHERS, 1, "x"))


def _shuffle(old: Any, rng: Rng) -> str:
    if isinstance(old, dict):
        keys = list(old)
        first, second = _pick(rng, keys), _pick(rng, keys)
        old[first], old[second] = old[second], old[first]
        return f"{first:.20} and {second:.20} exchanged"
    how = _pick(rng, ("shorter", "longer", "permuted", "huge"))
    if how == "shorter":
        old.pop(int(rng.integers(len(old))))
    elif how == "longer":
        old.append(old[int(rng.integers(len(old)))])
    elif how == "permuted":
        old[:] = [old[int(i)] for i in rng.permutation(len(old))]
    elif len(json.dumps(old[0])) < 100:
        old.extend([old[0]] * 200_000)
    return str(how)


def _changed_array(arrays: dict[str, Any], name: str, rng: Rng) -> str:
    """Change one array, or add or drop one; what was done."""
    array = arrays[name]
    how = _pick(rng, ("type", "shape", "value", "value", "permuted", "members", "zeros", "header"))
    if how == "type":
        dtype = _pick(rng, DTYPES)
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(dtype) if dtype != "O" else array[:1].astype(dtype)
        return f"type {dtype}"
    if how == "shape":
        choices = (array[:-1], np.concatenate([array, array]), array[None], array[:0],
                   array.reshape(-1)[0])  # fmt: skip
        arrays[name] = choices[int(rng.integers(5))]
        return f"shape {array.shape} -> {np.shape(arrays[name])}"
    if how == "value":
        arrays[name], told = _with_value(array, rng)
        return told
    if how == "permuted":
        arrays[name] = rng.permutation(array.reshape(-1)).reshape(array.shape)
    elif how == "members":
        how = ("dropped", "one array more", "twice")[int(rng.integers(3))]
        if how == "dropped":
            del arrays[name]
        elif how == "one array more":
            arrays[_pick(rng, ("x", "bilinear_context", "../x", "TABLE"))] = array
    elif how == "zeros":
        arrays[name] = np.zeros(int(rng.choice([1 << 24, 1 << 26])), dtype=array.dtype)
        return f"{arrays[name].nbytes >> 20} MB of zeros"
    else:
        shape = _pick(rng, ((1 << 40,), (1 << 62, 4), (-1,), (1 << 31, 1 << 31), (3, -7)))
        out = io.BytesIO()
        kind = np.lib.format.dtype_to_descr(array.dtype)
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        arrays[name] = out.getvalue() + array.tobytes()
        return f"header says {shape}"
    return str(how)


def _with_value(array: Any, rng: Rng) -> tuple[Any, str]:
    """An odd number at one place or everywhere; as far as the type goes."""
    changed = array.copy()
    flat, value = changed.reshape(-1), _pick(rng, NUMBERS)
    at = int(rng.integers(len(flat))) if len(flat) else 0
    place = slice(None) if rng.random() < 0.3 else at
    with np.errstate(all="ignore"):
        try:
            flat[place] = value
        except (OverflowError, ValueError):
            whole = np.issubdtype(array.dtype, np.integer)
            limits = np.iinfo(array.dtype) if whole else np.finfo(array.dtype)
            flat[place] = limits.max if rng.random() < 0.5 else limits.min
    return changed, f"{value!r:.20} at {'all' if place != at else at}"


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=True)
    return out.getvalue()


def _trails(value: Any, trail: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a document stands; of long lists, of a few elements only."""
    if trail:
        yield trail
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _trails(inner, (*trail, key))
    elif isinstance(value, list):
        for i in (*range(min(3, len(value))), *([len(value) - 1] if len(value) > 3 else [])):
            yield from _trails(value[i], (*trail, i))


def _table(lines: list[str], place: int) -> str:
    return next((x.strip("[]") for x in reversed(lines[:place]) if x.startswith("[")), "")


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _shown(trail: tuple[Any, ...]) -> str:
    return ".".join(f"{key!s:.30}" for key in trail)


# --- one case ---------------------------------------------------------------------------------


def make_case(bundles: list[Path], folder: Path, seed: int, number: int) -> str:
    """Write the spoilt bundle into a folder that is not there yet; what was done to it."""
    rng = np.random.default_rng([seed, number])
    source = bundles[number % len(bundles)]
    shutil.copytree(source, folder, copy_function=os.link)
    names = sorted(
        p.relative_to(source).as_posix() for p in source.rglob("*")
        if p.suffix in CHANGES and p.name != "bundle.json"
    )  # fmt: skip
    by_kind = collections.defaultdict(list)
    for name in names:
        by_kind[Path(name).suffix].append(name)
    weights = {".json": 0.5, ".npz": 0.25, ".onnx": 0.15, ".toml": 0.1}
    kinds = sorted(by_kind)
    share = np.array([weights[kind] for kind in kinds])
    name = _pick(rng, by_kind[kinds[int(rng.choice(len(kinds), p=share / share.sum()))]])
    path = folder / name
    data, told = CHANGES[path.suffix](path.read_bytes(), rng)
    _replace(path, data)
    reseal(folder)
    return f"{source.name}/{name}: {told}"


def reseal(folder: Path) -> None:
    """Write sums that are true, without asking whether the stages load."""
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    for path in manifest["files"]:
        data = (folder / path).read_bytes()
        manifest["files"][path] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
        }
    _replace(folder / "bundle.json", json.dumps(manifest).encode())


def _replace(path: Path, data: bytes) -> None:
    """Not written into: the file is a link to that of the whole bundle."""
    path.unlink()
    path.write_bytes(data)


def run_case(folder: Path) -> str:
    """`works`, or the class of our error; anything else is raised."""
    import sightwords

    photo = Image.effect_noise((64, 48), 60).convert("RGB")
    try:
        caption = sightwords.load(folder, threads=1, backend="numpy")(photo)
        caption.text.encode("utf-8")
        numbers = [
            0.0 if np.isnan(caption.confidence) and not (folder / "rerank/confidence.json").exists()
            else caption.confidence,
            *(x for c in caption.words for x in (c.detected.prob, c.detected.precision)),
            *(x for c in caption.n_best for x in (c.score, *c.features.values())),
        ]  # fmt: skip
        if not np.isfinite(numbers).all():
            raise AssertionError(f"numbers that are not finite: {numbers}")
    except SightwordsError as error:
        text = f"{type(error).__name__}: {error}"
        if not text.isprintable() or len(text) > 2000:
            raise AssertionError(f"{len(text)} letters, not one clean line: {text:.200}") from error
        return text
    return "works"


# --- many cases, in worker processes -----------------------------------------------------------


def load_cases(bundles: list[Path]) -> Callable[[Path], Iterator[Result]]:
    """In a worker: what loads the bundle in a folder under limits, and says how it went."""
    import sightwords

    warnings.simplefilter("ignore")
    for bundle in bundles:  # what every load costs is not counted as the case's
        sightwords.load(bundle, threads=1, backend="numpy")(Image.new("RGB", (64, 48)))
    # Address space, not memory: the networks' threads reserve some that they never touch.
    limit = _status("VmSize") + ((MOST_MEGABYTES + 400) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return _measured


def _measured(folder: Path) -> Iterator[Result]:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, start = _status("VmRSS"), time.process_time()
    try:
        outcome = run_case(folder)
    except BaseException as error:  # every kind is a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        outcome = f"FINDING {type(error).__name__} at {place}: {str(error)[:200]!r}"
    seconds, more = time.process_time() - start, (_status("VmHWM") - before) >> 20
    if not outcome.startswith("FINDING") and (more > MOST_MEGABYTES or seconds > MOST_SECONDS):
        outcome = f"FINDING {more} MB and {seconds:.1f} s; {outcome}"
    yield outcome, seconds, more


def _status(key: str) -> int:
    """Bytes, of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    return 0


class Runner:
    """Cases in a worker process, which is replaced when it is lost and now and then."""

    def __init__(self, bundles: list[Path]) -> None:
        self._bundles = bundles
        self._worker: WorkerProcess[Path, Result] | None = None
        self._left = 0

    def run(self, folder: Path) -> Result:
        """How it went, seconds and megabytes."""
        if self._worker is None or not self._left:
            self.stop()
            self._worker = WorkerProcess(load_cases, self._bundles, start_seconds=120)
            self._left = CASES_PER_WORKER
        self._left -= 1
        try:
            [result] = self._worker.ask(folder, seconds=MOST_SECONDS * 8)
        except SightwordsError as error:
            self._left = 0
            return f"FINDING {error}", 0.0, 0
        return result

    def stop(self) -> None:
        """Stop the worker."""
        if self._worker is not None:
            self._worker.stop()


def make_bundles(folder: Path) -> list[Path]:
    """A tiny bundle as the tests make it, the default one, and parts of both."""
    sys.path.insert(0, str(ROOT))
    from tests.conftest import write_tiny_bundle

    from sightwords.bundle import DEFAULT_BUNDLE

    tiny = write_tiny_bundle(folder / "tiny")
    shutil.copyfile(DEFAULT_BUNDLE / "config.resolved.toml", tiny / "config.resolved.toml")
    manifest = json.loads((tiny / "bundle.json").read_text())
    manifest["files"]["config.resolved.toml"] = {}
    (tiny / "bundle.json").write_text(json.dumps(manifest))
    reseal(tiny)
    default = Path(shutil.copytree(DEFAULT_BUNDLE, folder / "default"))
    return [tiny, tiny, default, tiny]


def main() -> int:
    """Run the cases, print findings as they come and the counts at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="repeat one case and say all about it")
    args = parser.parse_args()
    numbers = range(args.first, args.first + args.count) if args.only is None else [args.only]
    kinds: collections.Counter[str] = collections.Counter()
    findings, most, longest = 0, 0, 0.0
    with tempfile.TemporaryDirectory(prefix="fuzz-bundles-") as name:
        bundles = make_bundles(Path(name))
        runner = Runner(bundles)
        for number in numbers:
            case = Path(name) / "case"
            told = make_case(bundles, case, args.seed, number)
            outcome, seconds, more = runner.run(case)
            shutil.rmtree(case)
            kinds[outcome.split(":")[0].split(" ")[0]] += 1
            most, longest = max(most, more), max(longest, seconds)
            if number % 250 == 249:
                print(f"{number + 1} done: {dict(kinds)}", file=sys.stderr, flush=True)
            if outcome.startswith("FINDING") or args.only is not None:
                findings += outcome.startswith("FINDING")
                print(f"{number}  {told}\n    {outcome}  ({seconds:.1f} s, {more} MB)", flush=True)
        runner.stop()
    print(f"{len(numbers)} bundles, seed {args.seed}: {dict(sorted(kinds.items()))}")
    print(f"findings {findings}; longest {longest:.1f} s; most memory {most} MB")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
