"""What the default package takes on disk: installed into a fresh environment, counted file by file.

    python benchmarks/install_size.py        # builds and installs this checkout, through pip
    python benchmarks/install_size.py --limit 260

Only the core dependencies are installed, no extra. pip itself, which comes with the environment,
is not counted; what is compiled to bytecode on installing is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        before, packages = installed(Path(folder), args.source)
    total = sum(packages.values())
    for name, size in packages.most_common(12):
        print(f"{size / 1e6:8.1f} MB  {name}")
    print(f"{total / 1e6:8.1f} MB  in all, beside {before / 1e6:.1f} MB of pip itself")
    if args.limit is not None and total > args.limit * 1e6:
        sys.exit(f"over the limit of {args.limit} MB")


def installed(folder: Path, source: str) -> tuple[int, Counter[str]]:
    """Bytes of a bare environment, and of each package that installing adds to it."""
    venv.create(folder / "env", with_pip=True)
    site = next((folder / "env").rglob("site-packages"))
    before = sizes(site)
    python = next(p for d in ("bin", "Scripts") for p in (folder / "env" / d).glob("python*"))
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", source], check=True)
    after = sizes(site)
    return sum(before.values()), after - before


def sizes(site: Path) -> Counter[str]:
    """Bytes below each entry of site-packages."""
    found: Counter[str] = Counter()
    for path in site.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found[path.relative_to(site).parts[0]] += path.stat().st_size
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", default=str(ROOT), help="what pip installs")
    parser.add_argument("--limit", type=float, metavar="MB", help="fail above this")
    return parser.parse_args()


if __name__ == "__main__":
    main()
