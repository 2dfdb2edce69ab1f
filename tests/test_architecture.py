"""Rules that hold for the whole project, read from its source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
PACKAGES = ["guardops", "policies", "runs"]
LAYOUT = {
    *(".ci", ".github", ".gitignore", "CONTRIBUTING.md", "DEVELOPERS.md", "LICENSE", "README.md"),
    *("guardops", "manage.py", "policies", "pyproject.toml", "runs", "static", "templates", "tests"),
}

GUARD = ["guardops.guard"]
SHOWN = [
    "guardops.addresses",
    "guardops.charts",
    "guardops.env",
    "guardops.export",
    "guardops.htmx",
    "guardops.scatter",
    "guardops.shown",
    "guardops.templatetags",
    "guardops.viewer",
]
LAYERS = {
    # A module may import from its own prefix and from those named; the longest prefix decides.
    "guardops.guard": [],
    "guardops.local": [],
    **dict.fromkeys(SHOWN, GUARD + SHOWN),
    "guardops.tenants": GUARD + SHOWN,
    "policies": [*GUARD, *SHOWN, "guardops.tenants", "guardops.celery"],
    "runs": [*GUARD, *SHOWN, "guardops.tenants", "guardops.beat", "guardops.celery", "policies"],
    "guardops.beat": [],
    "guardops.task_ids": [],
    "guardops.celery": [
        "guardops.logs",
        "guardops.task_ids",
    ],  # tasks name its app, so it may know no app's code
    "guardops.settings": ["guardops.env", "guardops.local.state", "guardops.logs"],
    "guardops": ["guardops", "policies", "runs"],  # composition: urls, gate, celery, web, commands
}
LOCAL_IS_FOR = ("guardops.local", "guardops.management", "guardops.settings")
GUARD_NEEDS = {"httpx", "idna", "msgspec", "publicsuffixlist"}


@cache
def modules() -> dict[str, Path]:
    """Return the project's modules by name, migrations left out."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
        if "migrations" not in path.parts
    }


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(name: str, path: Path) -> Iterator[str]:
    """Yield what a module imports, by full name, wherever in it the import stands."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def under(name: str, prefixes: list[str] | tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def upward(name: str, path: Path) -> list[str]:
    layer = max((prefix for prefix in LAYERS if under(name, [prefix])), key=len)
    allowed = [layer, *LAYERS[layer]]
    return [
        f"{name} imports {imported}"
        for imported in imports(name, path)
        if imported.partition(".")[0] in {*PACKAGES, "tests"} and not under(imported, allowed)
    ]


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}.{node.name}", node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def templates() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every text file of the project but this one, which spells out what no other may hold."""
    tops = [ROOT / name for name in sorted(LAYOUT)]
    for top in tops:
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path != HERE and "__pycache__" not in path.parts:
                try:
                    yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue


def test_imports_point_down() -> None:
    assert [line for name, path in modules().items() for line in upward(name, path)] == []


def test_only_commands_and_settings_use_the_local_servers() -> None:
    users = [
        name
        for name, path in modules().items()
        if any(under(i, ["guardops.local"]) for i in imports(name, path))
    ]
    assert [name for name in users if not under(name, LOCAL_IS_FOR)] == []


def test_the_guard_needs_its_own_dependencies_alone() -> None:
    foreign = [
        f"{name} imports {imported}"
        for name, path in modules().items()
        if under(name, GUARD) and not under(name, ["guardops.guard.adapters"])
        for imported in imports(name, path)
        if (top := imported.partition(".")[0]) not in {*sys.stdlib_module_names, *GUARD_NEEDS, "guardops"}
        and top
    ]
    assert foreign == []


def test_importing_the_guard_loads_no_django() -> None:
    names = [
        name for name in modules() if under(name, GUARD) and "adapters" not in name and "__main__" not in name
    ]
    script = f"import sys\nfor name in {names!r}: __import__(name)\nsys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0
    assert (ROOT / "guardops" / "__init__.py").read_text() == ""


def test_functions_have_at_most_fifty_lines() -> None:
    assert {name: length(node) for name, node in functions() if length(node) > 50} == {}


def test_views_have_at_most_thirty_lines() -> None:
    views = {
        name: length(node)
        for name, node in functions()
        if under(name, PACKAGES) and node.args.args and node.args.args[0].arg == "request"
    }
    assert views
    assert {name: lines for name, lines in views.items() if lines > 30} == {}


def test_modules_have_at_most_four_hundred_lines() -> None:
    sizes = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    assert {name: lines for name, lines in sizes.items() if lines > 400} == {}


def test_everything_is_annotated() -> None:
    bare = [
        name
        for name, node in functions()
        if node.returns is None
        or any(
            a.annotation is None
            for a in node.args.args + node.args.kwonlyargs
            if a.arg not in {"self", "cls"}
        )
    ]
    assert bare == []


@pytest.mark.parametrize("name", ["mark_safe", "post_save", "pre_save", "receiver", "NotImplementedError"])
def test_a_name_that_has_no_place_here_is_not_used(name: str) -> None:
    used = [
        module
        for module, path in modules().items()
        for node in ast.walk(tree(path))
        if name in {getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None)}
    ]
    assert used == []


def test_settings_are_read_in_one_place() -> None:
    readers = [
        name
        for name, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    ]
    elsewhere = ("guardops.env", "guardops.guard", "guardops.local", "guardops.management")
    starters = (
        "guardops.wsgi",
        "guardops.celery",
        "guardops.gate",
        "guardops.web",
    )  # name the settings module
    assert [name for name in readers if not under(name, elsewhere + starters)] == []


FORBIDDEN = {
    "unescaped text": r"\|\s*safe(?:seq)?\b|{%\s*autoescape\s+off",
    "an inline style": r"<style\b|\sstyle\s*=",
    "an inline script": r"<script\b(?![^>]*\bsrc=)|\son[a-z]+\s*=|javascript:|\shx-on\b",
    "an address of others": r"(?:src|href|action)\s*=\s*[\"']?(?:https?:)?//",
}


@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_templates_hold_nothing_that_the_policy_forbids(what: str) -> None:
    assert [str(path) for path, text in templates() if re.search(FORBIDDEN[what], text)] == []


def test_what_htmx_fetches_works_without_it() -> None:
    plain = {"a": "href", "form": "action", "button": "formaction"}
    dead = [
        f"{path}: {tag[0]}"
        for path, text in templates()
        for tag in re.finditer(r"<(a|form|button)\b(?:{[{%].*?[%}]}|[^>])*>", text)
        if re.search(r"\shx-(?:get|post)\b", tag[0]) and not re.search(rf"\s{plain[tag[1]]}=", tag[0])
    ]
    assert dead == []


def test_forms_that_change_something_carry_their_token() -> None:
    bare = [
        f"{path}: {form[0][:80]}"
        for path, text in templates()
        for form in re.finditer(r"<form\b[^>]*\bmethod=\"post\".*?</form>", text, re.DOTALL)
        if "{% csrf_token %}" not in form[0]
    ]
    assert bare == []


def test_no_path_of_a_machine_is_written_down() -> None:
    machine = re.compile(rf"{re.escape(str(ROOT))}\b|/(?:home|Users)/\w|/root/")
    assert [str(path) for path, text in texts() if machine.search(text)] == []


def test_no_package_registry_is_named() -> None:
    hosts = re.compile("|".join((r"pypi\.", "pythonhosted", "npmjs", "jsdelivr", "unpkg")), re.IGNORECASE)
    assert [str(path) for path, text in texts() if hosts.search(text)] == []


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
    assert [str(path) for path, text in texts() if later.search(text)] == []


def test_the_top_level_is_as_laid_out() -> None:
    ignored = [
        line.strip().strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.strip()
    ]
    names = {path.name for path in ROOT.iterdir() if path.name != ".git"}
    assert {
        name for name in names - LAYOUT if not any(fnmatch(name, pattern) for pattern in ignored)
    } == set()
