"""The layers of the package, read off the imports, and what inference may load.

Each layer imports only what stands to its left; a module inside a function body counts, and so
does one named in `require("...")` or `import_module("...")`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightwords

ROOT = Path(sightwords.__file__).parent

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "_version",
        "errors",
        "types",
        "files",
        "settings",
        "samples",
        "parallel",
        "worker_process",
        "sandbox",
        "http_server",
        "npz",
        "sealed",
        "strict_json",
        "json_reader",
    ),
    ("config",),
    ("text", "images", "corpus", "onnx_check", "runtime"),
    ("words", "language", "metrics"),
    ("rerank", "explain"),
    ("bundle",),
    ("pipeline",),
    ("batch", "evaluate"),
    ("train", "study"),
    ("cli", "web"),
)
STRANGERS = {"words", "language", "metrics"}
"""Siblings that never import each other."""

LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
ONLY_IN = {"torch": {"train"}, "transformers": {"train"}, "onnxruntime": {"runtime", "train"}}


def _modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _part(path: Path) -> str:
    """The layer's name: `metrics` for metrics/bleu.py, `config` for config.py."""
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Every module name that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{package}: relative import; write the full name"
            if node.module == "sightwords":
                yield from (f"sightwords.{alias.name}" for alias in node.names)
            elif node.module is not None:
                yield node.module
        elif isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.func).rpartition(".")[2]
            first = node.args[0]
            if name in ("require", "import_module", "__import__") and isinstance(
                first, ast.Constant
            ):
                yield str(first.value)


def violations(source: str, part: str) -> list[str]:
    """What a file of this layer imports and must not."""
    wrong = []
    for name in _imports(ast.parse(source), part):
        top, _, rest = name.partition(".")
        if top in ONLY_IN and part not in ONLY_IN[top]:
            wrong.append(f"{part} imports {top}")
        if top != "sightwords" or not rest:
            continue
        target = rest.partition(".")[0]
        if target not in LAYER_OF or target == part:
            continue
        if LAYER_OF[target] > LAYER_OF[part]:
            wrong.append(f"{part} imports {target}, which stands to its right")
        if {part, target} <= STRANGERS:
            wrong.append(f"{part} imports its sibling {target}")
    return wrong


def test_every_module_has_a_layer() -> None:
    unknown = {_part(p) for p in _modules()} - set(LAYER_OF) - {"__init__", "__main__"}
    assert not unknown, f"add {sorted(unknown)} to LAYERS"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    if _part(path) in ("__init__", "__main__"):
        return
    assert violations(path.read_text(encoding="utf-8"), _part(path)) == []


def test_no_cycles_between_modules() -> None:
    graph: dict[str, set[str]] = {}
    names = {_dotted(p): p for p in _modules()}
    for name, path in names.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph[name] = {t for t in _imports(tree, name) if t in names and t != name}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize(
    ("source", "part", "wrong"),
    [
        ("def f():\n    import torch\n", "words", "words imports torch"),
        ("from sightwords.errors import require\nrequire('torch.nn')", "text", "text imports"),
        ("import onnxruntime", "words", "words imports onnxruntime"),
        ("from sightwords import pipeline", "words", "words imports pipeline"),
        ("from sightwords.language.beam import x", "words", "words imports its sibling"),
        ("import sightwords.cli.main", "train", "train imports cli"),
    ],
)
def test_the_reader_of_imports_sees_what_is_hidden(source: str, part: str, wrong: str) -> None:
    assert any(v.startswith(wrong) for v in violations(source, part))


def test_no_module_is_called_utils() -> None:
    assert not [p for p in _modules() if p.stem in ("utils", "util", "helpers", "common")]


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])
sys.meta_path.insert(0, Refuse())
"""
OPTIONAL = ["torch", "transformers", "numba", "scipy", "matplotlib", "fsspec", "datasets"]


@pytest.mark.parametrize(
    "code",
    [
        "import sightwords",
        "from sightwords.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass",
        "from sightwords.cli.main import main\nmain(['caption', '--samples'])",
    ],
    ids=["import", "help", "caption"],
)
def test_inference_runs_where_only_the_core_is_installed(code: str) -> None:
    """No torch, no numba, no other extra: blocked, so that trying to import one fails."""
    blocked = BLOCK.format(blocked=OPTIONAL) + code
    blocked += f"\nassert not set({OPTIONAL!r}) & set(sys.modules)"
    result = _run(blocked)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
