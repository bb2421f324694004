"""Image file -> calibrated words on one thread, beside BLIP-base writing a caption of 12 tokens.

    python benchmarks/words_speed.py DETECTOR                     # the sample photos
    python benchmarks/words_speed.py DETECTOR holiday/*.jpg --rounds 5

BLIP has the layout of its base captioning model (ViT-B/16 at 384 px, 12 layers of 768) with random
weights, which cost the same time, and decodes greedily with its cache. Both run alone in a process
of their own, on one thread, one image at a time, from the file on disk; the first image is a
warm-up and not counted. Needs the `train` extra for BLIP (`--alone` leaves it out).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sightwords.parallel import ONE_THREAD

SAMPLES = Path(__file__).parent.parent / "src" / "sightwords" / "samples"
TOKENS = 12
Step = Callable[[Path], object]


def main() -> None:
    args = arguments()
    photos = args.photos or sorted(SAMPLES.glob("*.jpg"))
    if args.inside:
        print(json.dumps(measure(args.inside, args.detector, photos, rounds=args.rounds)))
        return
    names = ["words"] if args.alone else ["words", "blip"]
    found = {name: in_a_process(name, args.detector, photos, args.rounds) for name in names}
    print(f"machine: {machine()}, 1 thread; {len(photos)} photos, {args.rounds} rounds")
    for name, row in found.items():
        print(
            f"{name:6s} median {row['median_ms']:8.1f} ms   slowest {row['slowest_ms']:8.1f} ms   "
            f"load {row['load_s']:5.2f} s   peak memory {row['peak_mb']:6.0f} MB   {row['what']}"
        )
    if not args.alone:
        ratio = found["blip"]["median_ms"] / found["words"]["median_ms"]
        print(f"words are {ratio:.1f} times faster")


def in_a_process(name: str, detector: Path, photos: list[Path], rounds: int) -> dict[str, Any]:
    """Run the script again to measure one side only."""
    command = [sys.executable, __file__, str(detector), *map(str, photos)]
    command += ["--inside", name, "--rounds", str(rounds)]
    done = subprocess.run(
        command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, check=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(name: str, detector: Path, photos: list[Path], *, rounds: int) -> dict[str, Any]:
    """Load, warm up, and time each photo; the median of its rounds is its time."""
    started = time.perf_counter()
    step, what = words_step(detector) if name == "words" else blip_step()
    loaded = time.perf_counter() - started
    step(photos[0])
    seconds = np.array([[timed(step, p) for p in photos] for _ in range(rounds)])
    each = 1000 * np.median(seconds, axis=0)
    # On Linux ru_maxrss is in KiB, on macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "median_ms": float(np.median(each)),
        "slowest_ms": float(each.max()),
        "load_s": loaded,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
        "what": what,
    }


def timed(step: Step, photo: Path) -> float:
    started = time.perf_counter()
    step(photo)
    return time.perf_counter() - started


def words_step(directory: Path) -> tuple[Step, str]:
    """All of section 3, boxes included."""
    from sightwords.words.detector import Detector

    detector = Detector.load(directory, threads=1)
    return detector.words, f"{detector.spec.backbone}, {detector.spec.input.size_px} px"


def blip_step(*, beams: int = 1) -> tuple[Step, str]:
    """BLIP-base: decode, resize, encode, and 12 tokens one after another, greedily or by beam."""
    import torch
    from PIL import Image
    from transformers import BlipConfig, BlipForConditionalGeneration

    torch.set_num_threads(1)
    torch.manual_seed(0)
    # The library's defaults are the base model's, but for its 12 heads in the text decoder.
    config = BlipConfig(
        text_config={"num_attention_heads": 12},
        vision_config={"image_size": 384, "initializer_range": 0.02},
    )
    text: Any = config.text_config
    vision: Any = config.vision_config
    assert (vision.hidden_size, vision.num_hidden_layers, vision.patch_size) == (768, 12, 16)
    assert (text.hidden_size, text.num_hidden_layers, text.vocab_size) == (768, 12, 30524)
    model: Any = BlipForConditionalGeneration(config)
    model.eval()
    mean = np.array([0.48145466, 0.4578275, 0.40821073], dtype=np.float32)
    deviation = np.array([0.26862954, 0.26130258, 0.27577711], dtype=np.float32)

    def step(photo: Path) -> object:
        with Image.open(photo) as image:
            small = image.convert("RGB").resize((384, 384), Image.Resampling.BICUBIC)
        pixels = (np.asarray(small, dtype=np.float32) / 255 - mean) / deviation
        with torch.inference_mode():
            tokens = model.generate(
                torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy()),
                num_beams=beams,
                do_sample=False,
                min_new_tokens=TOKENS,
                max_new_tokens=TOKENS,
            )
        assert tokens.shape[1] >= TOKENS, tokens.shape
        return tokens

    millions = sum(p.numel() for p in model.parameters()) / 1e6
    return step, f"{millions:.0f} M parameters, torch {version('torch')}"


def machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        cpu = platform.processor()
    runtime = version("onnxruntime")
    return f"{cpu}, Python {platform.python_version()}, onnxruntime {runtime}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("detector", type=Path, help="a calibrated detector directory")
    parser.add_argument("photos", nargs="*", type=Path, help="image files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without BLIP")
    parser.add_argument("--inside", choices=("words", "blip"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
