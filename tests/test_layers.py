"""The order of imports, who may import which library, and who may print or exit: read from the source by `ast`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "llmdoctor"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Bottom to top; a module imports from its own layer and those below.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "redact"),
    ("pages",),
    ("store",),
    ("pairs",),
    ("stats",),
    ("rulebook",),
    ("lint",),
    ("ingest", "probe"),
    ("diagnose",),
    ("compare",),
    ("report",),
    (
        "settings",
        "skeleton",
        "cli",
        "cli_output",
        "cli_pages",
        "cli_formats",
        "cli_live",
        "cli_target",
        "cli_probe",
        "cli_show",
        "cli_compare",
        "cli_explain",
        "cli_completion",
        "manual",
        "__main__",
    ),
)
OWNERS = {
    "duckdb": {"store"},
    "polars": {"stats"},
    "jinja2": {"report"},
    "httpx": {"probe"},
    "httpcore": {"probe"},
    "click": {
        "cli",
        "cli_pages",
        "cli_formats",
        "cli_probe",
        "cli_target",
        "cli_show",
        "cli_compare",
        "cli_explain",
        "cli_completion",
        "manual",
    },
    "markdown_it": {"pages", "report"},
}
MAY_PRINT = {"cli", "cli_pages", "__main__"}


def _part(module: Path) -> str:
    """The name of a module as the layers call it: its file, or the folder that it stands in."""
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def _imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            if node.module == "llmdoctor":
                yield from (f"llmdoctor.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def _depth(part: str) -> int:
    return next(depth for depth, names in enumerate(LAYERS) if part in names)


def _name(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


def test_every_module_has_a_layer() -> None:
    known = {name for names in LAYERS for name in names} | {"__init__"}
    assert [_name(module) for module in MODULES if _part(module) not in known] == []


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_module_imports_only_from_its_own_layer_and_below(module: Path) -> None:
    part = _part(module)
    if part == "__init__":
        return
    ours = [name.split(".")[1] for name in _imports(module) if name.startswith("llmdoctor.")]
    known = {name for names in LAYERS for name in names}
    above = [name for name in ours if name in known and _depth(name) > _depth(part)]
    assert above == []


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_library_is_imported_where_it_belongs(module: Path) -> None:
    libraries = {name.split(".")[0] for name in _imports(module)}
    assert [name for name in libraries if _part(module) not in OWNERS.get(name, {_part(module)})] == []


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_only_the_command_line_prints_and_exits(module: Path) -> None:
    if _part(module) in MAY_PRINT:
        return
    calls = [
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    forbidden = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write", "click.echo"}
    assert sorted(forbidden.intersection(calls)) == []


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_a_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {"utils", "core", "base", "common", "helpers", "models"}
    assert [_name(module) for module in MODULES if names & set(Path(_name(module)).with_suffix("").parts)] == []
