"""A batch on a Ray cluster of two nodes, one of them killed half way; and a killed driver."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sightwords.batch import (
    BatchOptions,
    ClusterOptions,
    Progress,
    open_source,
    run_batch,
    run_on_ray,
)
from sightwords.cli.main import main
from sightwords.errors import InputError

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray")

COLOURS = ("red", "lime", "blue", "white", "black")
SHARDS, IMAGES, SLICE = 4, 24, 6


def _photograph(number: int) -> bytes:
    image = Image.new("RGB", (20, 20), COLOURS[number % 5])
    image.paste((number % 256, 0, 0), (0, 0, 10, 10))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _shard(path: Path, photographs: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for key, data in photographs.items():
            info = tarfile.TarInfo(f"{key}.png")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four shards, one file that is not a photo; a fifth shard is named and not there."""
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(SHARDS):
        numbers = range(shard * IMAGES, (shard + 1) * IMAGES)
        photographs = {f"{n:04d}": _photograph(n) if n != 31 else b"no image" for n in numbers}
        _shard(folder / f"s-{shard}.tar", photographs)
    return f"{folder}/s-{{0..{SHARDS}}}.tar"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one core, and this process joined to it."""
    utilities = pytest.importorskip("ray.cluster_utils")

    # A dead node is noticed in seconds rather than half a minute.
    health = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    variables = pytest.MonkeyPatch()
    variables.setenv("RAY_worker_niceness", "0")  # else it waits for all else on the machine
    started = utilities.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "_system_config": health, "include_dashboard": False},
    )
    ray.init(address=started.address, log_to_driver=False)
    yield started
    ray.shutdown()
    started.shutdown()
    variables.undo()


def _options(out: Path | str, bundle: Path, **more: Any) -> ClusterOptions:
    return ClusterOptions(out=str(out), bundle=str(bundle), slice_images=SLICE, **more)


@pytest.fixture(scope="module")
def local(shards: str, tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the local engine makes of the shards."""
    out = tmp_path_factory.mktemp("local") / "c.jsonl"
    run_batch(open_source(shards), BatchOptions(out=out, bundle=str(tiny_bundle), workers=1))
    return out


def _errors(out: Path) -> bytes:
    return out.with_name(f"{out.name}.errors.jsonl").read_bytes()


def _actors_below(pid: int) -> list[int]:
    """The captioning actors among the processes that a node has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            title = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"Captioning" in title:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_node_killed_half_way_loses_and_doubles_nothing(
    cluster: Any, shards: str, tiny_bundle: Path, local: Path, tmp_path: Path
) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    raylet = node.all_processes["raylet"][0].process.pid
    killed_at: list[int] = []

    def kill(progress: Progress) -> None:
        if not killed_at and progress.done >= SHARDS * IMAGES // 4 and _actors_below(raylet):
            cluster.remove_node(node, allow_graceful=False)
            killed_at.append(progress.done)

    out = tmp_path / "c.jsonl"
    problems: list[object] = []
    progress = run_on_ray(
        shards, _options(out, tiny_bundle), on_problem=problems.append, on_progress=kill
    )
    assert killed_at, "the second node never had an actor"
    assert killed_at[0] < SHARDS * IMAGES
    assert out.read_bytes() == local.read_bytes()
    assert _errors(out) == _errors(local)
    assert len(out.read_text().splitlines()) == SHARDS * IMAGES - 1
    assert progress.failed == 1
    [problem] = problems
    assert f"s-{SHARDS}.tar" in str(problem)
    assert not (tmp_path / "c.jsonl.parts").exists()


def _finished_slices(out: Path) -> int:
    """How many slices are written, once the tasks that a stopped run had begun are over."""
    found, since = -1, time.monotonic()
    while time.monotonic() - since < 3:
        count = len(list((out / ".parts").glob(f"*-{SLICE}.jsonl")))
        if count != found:
            found, since = count, time.monotonic()
        time.sleep(0.1)
    return found


def test_a_stopped_run_goes_on_and_parquet_comes_a_file_a_shard(
    cluster: Any, shards: str, tiny_bundle: Path, local: Path, tmp_path: Path
) -> None:
    from sightwords.batch.parquet import read_parquet

    class StopError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done >= 2 * SLICE:
            raise StopError

    out = tmp_path / "captions"
    place = f"local://{out}"  # by way of fsspec, as to any store
    options = _options(place, tiny_bundle, format="parquet")
    with pytest.raises(StopError):
        run_on_ray(shards, options, on_progress=stop)
    with pytest.raises(InputError, match=r"\.parts"):
        run_on_ray(shards, options)
    with pytest.raises(InputError, match=r"n_best = 0.* 1"):
        run_on_ray(shards, _options(place, tiny_bundle, format="parquet", resume=True, n_best=1))
    before = _finished_slices(out)
    assert before >= 2
    again = _options(place, tiny_bundle, format="parquet", resume=True)
    progress = run_on_ray(shards, again)
    assert progress.kept == SLICE * before < SHARDS * IMAGES
    assert progress.done == SHARDS * IMAGES
    files = sorted(out.glob("part-*.parquet"))
    assert len(files) == SHARDS + 1  # that of the shard that is not there is empty
    records = [record for file in files for record in read_parquet(file)]
    assert [json.dumps(record) for record in records] == local.read_text().splitlines()
    assert (out / "sightwords-errors.jsonl").read_bytes() == _errors(local)
    summary = json.loads((out / "sightwords-batch.json").read_text())
    assert summary == {"rows": SHARDS * IMAGES - 1, "failed": 1}
    assert run_on_ray(shards, again).done == 0  # whole already
    with pytest.raises(InputError, match="captions"):
        run_on_ray(shards, options)


def test_a_key_in_two_shards_is_an_error_that_names_it(
    cluster: Any, tiny_bundle: Path, tmp_path: Path
) -> None:
    _shard(tmp_path / "a.tar", {"1": _photograph(1), "2": _photograph(2)})
    _shard(tmp_path / "b.tar", {"3": _photograph(3), "2": _photograph(4)})
    out = tmp_path / "c.jsonl"
    with pytest.raises(InputError, match=r"2 \(.*a\.tar, .*b\.tar"):
        run_on_ray(f"local://{tmp_path}/{{a,b}}.tar", _options(out, tiny_bundle))
    assert not out.exists()


def test_a_folder_is_captioned_from_the_folder_of_the_command(
    cluster: Any, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(8):
        (tmp_path / "photos" / f"{number}.png").write_bytes(_photograph(number))
    (tmp_path / "list.txt").write_text("photos/1.png\nphotos/gone.png\nphotos/0.png\n")
    monkeypatch.chdir(tmp_path)
    for engine in ("local", "ray"):
        command = ["batch", "list.txt", "--out", f"{engine}.jsonl", "--bundle", str(tiny_bundle)]
        assert main([*command, "--engine", engine]) == 1
    ours, theirs = tmp_path / "ray.jsonl", tmp_path / "local.jsonl"
    assert ours.read_bytes() == theirs.read_bytes()
    assert _errors(ours) == _errors(theirs)  # `gone.png`, by its relative name


def test_a_killed_driver_leaves_its_slices(
    cluster: Any, shards: str, tiny_bundle: Path, local: Path, tmp_path: Path
) -> None:
    out = tmp_path / "c.jsonl"
    code = (
        "import sys; from sightwords.batch import ClusterOptions, run_on_ray\n"
        f"run_on_ray(sys.argv[1], ClusterOptions(out=sys.argv[2], bundle=sys.argv[3], "
        f"slice_images={SLICE}, address=sys.argv[4]))"
    )
    command = [sys.executable, "-c", code, shards, str(out), str(tiny_bundle), cluster.address]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    parts = tmp_path / "c.jsonl.parts"
    while driver.poll() is None and len(list(parts.glob(f"*-{SLICE}.jsonl"))) < 3:
        time.sleep(0.01)
    assert driver.poll() is None
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not out.exists()
    progress = run_on_ray(shards, _options(out, tiny_bundle, resume=True))
    assert progress.kept >= 3 * SLICE
    assert out.read_bytes() == local.read_bytes()


def test_an_address_where_nothing_answers(tmp_path: Path, shards: str, tiny_bundle: Path) -> None:
    command = [sys.executable, "-m", "sightwords", "batch", shards, "--engine", "ray"]
    command += ["--address", "127.0.0.1:9", "--out", str(tmp_path / "c.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "--address 127.0.0.1:9" in done.stderr
    assert done.stderr.count("\n") == 1
