"""Photo -> caption on one thread: sightwords beside BLIP-base and ViT-GPT2.

    python benchmarks/caption.py                                   # the sample photos
    python benchmarks/caption.py holiday/*.jpg --bundle mine --rounds 5
    python benchmarks/caption.py --alone --plot docs/images/caption_seconds.png

The peers have the layouts of their released models and random weights, which cost the same time:
BLIP-base (ViT-B/16 at 384 px, decoder of 12 layers) and ViT-GPT2 (ViT-B/16 at 224 px, GPT-2 small
with cross attention), through transformers, 12 tokens, greedily and by a beam of 5. Each runs alone
in its own process, on one thread, one image at a time, from the file on disk; the first image
is a warm-up and not counted. Seconds are the median over photos of the median of the rounds;
memory is the largest the process ever held. Needs the `train` extra for the peers.

Cold start is a new process: `sightwords caption ONE.jpg`, imports and loading included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.words_speed import SAMPLES, TOKENS, Step, blip_step, machine, timed

from sightwords.parallel import ONE_THREAD

NAMES = ("sightwords", "blip", "blip-beam-5", "vit-gpt2", "vit-gpt2-beam-5")


def main() -> None:
    args = arguments()
    photos = args.photos or sorted(SAMPLES.glob("*.jpg"))
    if args.inside:
        print(json.dumps(measure(args.inside, args, photos)))
        return
    names = NAMES[:1] if args.alone else NAMES
    found = {name: in_a_process(name, args, photos) for name in names}
    cold = [cold_start(photos[0], args) for _ in range(args.rounds)]
    report(found, cold, args, len(photos))
    if args.plot:
        plot(found["sightwords"]["stages_ms"], args.plot)


def report(
    found: dict[str, dict[str, Any]], cold: list[float], args: argparse.Namespace, count: int
) -> None:
    print(f"machine: {machine()}, 1 thread; {count} photos, {args.rounds} rounds\n")
    print("| system | s per photo | slowest | times sightwords | peak memory, MB | load, s |")
    print("|---|---|---|---|---|---|")
    own = found["sightwords"]
    for name, row in found.items():
        ratio = row["median_ms"] / own["median_ms"]
        print(
            f"| {name} ({row['what']}) | {row['median_ms'] / 1000:.3f} | "
            f"{row['slowest_ms'] / 1000:.3f} | {ratio:.1f} | {row['peak_mb']:.0f} | "
            f"{row['load_s']:.2f} |"
        )
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in own["stages_ms"].items())
    print(f"\nsightwords, ms per stage: {stages}")
    print(f"cold start, s: median {np.median(cold):.2f}, of {len(cold)}: "
          f"{', '.join(f'{s:.2f}' for s in cold)}")  # fmt: skip
    if "blip" in found:
        share = own["peak_mb"] / found["blip"]["peak_mb"]
        print(f"memory: {share:.2f} of BLIP's")


def in_a_process(name: str, args: argparse.Namespace, photos: list[Path]) -> dict[str, Any]:
    """Run the script again to measure one side only."""
    command = [sys.executable, __file__, *map(str, photos)]
    command += ["--inside", name, "--rounds", str(args.rounds), "--backend", args.backend]
    command += ["--bundle", args.bundle] if args.bundle else []
    done = subprocess.run(
        command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, check=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def cold_start(photo: Path, args: argparse.Namespace) -> float:
    command = [sys.executable, "-m", "sightwords", "caption", str(photo)]
    command += ["--bundle", args.bundle] if args.bundle else []
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def measure(name: str, args: argparse.Namespace, photos: list[Path]) -> dict[str, Any]:
    """Load, warm up, and time each photo; the median of its rounds is its time."""
    started = time.perf_counter()
    stages: list[dict[str, float]] = []
    step, what = step_of(name, args, stages)
    loaded = time.perf_counter() - started
    step(photos[0])
    stages.clear()
    seconds = np.array([[timed(step, p) for p in photos] for _ in range(args.rounds)])
    each = 1000 * np.median(seconds, axis=0)
    # On Linux ru_maxrss is in KiB, on macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return {
        "median_ms": float(np.median(each)),
        "slowest_ms": float(each.max()),
        "load_s": loaded,
        "peak_mb": peak_mb + helpers_mb(),
        "what": what,
        "stages_ms": {
            stage: 1000 * float(np.median([row[stage] for row in stages]))
            for stage in (stages[0] if stages else ())
        },
    }


def helpers_mb() -> float:
    """Memory of the processes that decode photos, without pages that they share."""
    return float(sum(p.memory_full_info().uss for p in psutil.Process().children()) / 1e6)


def step_of(
    name: str, args: argparse.Namespace, stages: list[dict[str, float]]
) -> tuple[Step, str]:
    beams = 5 if name.endswith("beam-5") else 1
    if name.startswith("blip"):
        return blip_step(beams=beams)
    if name.startswith("vit-gpt2"):
        return vit_gpt2_step(beams=beams)
    return sightwords_step(args, stages)


def sightwords_step(args: argparse.Namespace, stages: list[dict[str, float]]) -> tuple[Step, str]:
    import sightwords

    captioner = sightwords.load(args.bundle, threads=1, backend=args.backend)

    def step(photo: Path) -> object:
        caption = captioner(photo)
        stages.append(dict(caption.seconds))
        return caption

    return step, f"bundle {captioner.fingerprint[:12]}"


def vit_gpt2_step(*, beams: int = 1) -> tuple[Step, str]:
    """ViT-B/16 at 224 px and GPT-2 small with cross attention, 12 tokens."""
    import torch
    from PIL import Image
    from transformers import GPT2Config, VisionEncoderDecoderConfig, ViTConfig
    from transformers import VisionEncoderDecoderModel as Model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    vision = ViTConfig()
    assert (vision.image_size, vision.patch_size, vision.hidden_size) == (224, 16, 768)
    assert vision.num_hidden_layers == 12
    text = GPT2Config(add_cross_attention=True)
    assert (text.n_embd, text.n_layer, text.vocab_size) == (768, 12, 50257)
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
    config.decoder_start_token_id = config.pad_token_id = 50256
    model: Any = Model(config)
    model.eval()

    def step(photo: Path) -> object:
        with Image.open(photo) as image:
            small = image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
        pixels = (np.asarray(small, dtype=np.float32) / 255 - 0.5) / 0.5
        with torch.inference_mode():
            tokens = model.generate(
                torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy()),
                num_beams=beams,
                do_sample=False,
                min_new_tokens=TOKENS,
                max_new_tokens=TOKENS,
                decoder_start_token_id=50256,
                pad_token_id=50256,
            )
        assert tokens.shape[1] >= TOKENS, tokens.shape
        return tokens

    millions = sum(p.numel() for p in model.parameters()) / 1e6
    return step, f"{millions:.0f} M parameters, torch {version('torch')}"


def plot(stages_ms: dict[str, float], path: Path) -> None:
    """Where the time goes, as a bar chart."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    names = list(stages_ms)
    figure, axes = pyplot.subplots(figsize=(6.4, 2.6), layout="constrained")
    bars = axes.barh(names[::-1], [stages_ms[n] for n in names[::-1]], color="#1b4f9c")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("milliseconds per photo, one thread (median)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", nargs="*", type=Path, help="image files")
    parser.add_argument("--bundle", help="default: the one inside the package")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--backend", default="auto", choices=("auto", "numpy"), help="of the search"
    )
    parser.add_argument("--alone", action="store_true", help="without the peers")
    parser.add_argument("--plot", type=Path, help="draw the time of each stage into this file")
    parser.add_argument("--inside", choices=NAMES, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
