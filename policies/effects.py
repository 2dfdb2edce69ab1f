"""Whether a change of a policy reaches running runs: asked of the guard itself, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardops.guard.bundle import read_rules
from guardops.guard.fields import PolicyError
from guardops.guard.tightening import tighten

from .limits import BUILT_IN


def tightens(path: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> bool | None:
    """Say whether the field at ``path`` allows less in ``after``, two documents as they hold.

    False is that it allows more; None that running runs have nothing to take over and nothing to wait for.
    """
    try:
        old, new = (read_rules(_alone(path, before, source)).policy for source in (before, after))
    except PolicyError:  # right only together with other fields
        return None
    if tighten(old, new) is not old:
        return True
    return False if tighten(new, old) is not new else None


def _alone(path: tuple[str, ...], base: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """Return as much of ``base`` as the field needs beside it, with the field itself from ``source``."""
    match path:
        case ("limits" | "ladder" as key, name):
            return {key: _with(name, base.get(key, {}), source.get(key, {}))}
        case ("tools", tool):
            named: dict[str, Any] = {tool: {}} if tool in source.get("tools", {}) else {}
            return {"tools": named, "allow_list": base.get("allow_list", False)}
        case ("tools", tool, name):
            spec = _with(name, *(document.get("tools", {}).get(tool, {}) for document in (base, source)))
            # A tool without a cap of its own is held to the run's.
            usual = base.get("limits", {}).get(name, BUILT_IN.get(name))
            return {"tools": {tool: spec if usual is None else {name: usual} | spec}}
        case ("mode" | "allow_list" | "partial_ok" as key,):
            return _with(key, {}, source)
    return {}


def _with(name: str, base: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in base.items() if key != name}
    return rest | ({name: source[name]} if name in source else {})
