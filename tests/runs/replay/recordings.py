"""Small recorded runs."""

from __future__ import annotations

from typing import Any

import msgspec

from runs.replay.traces import Trace


def call(name: str, result: str | None = "found", *, error: str = "", **fields: Any) -> dict[str, Any]:
    """Return a recorded call; equal names are equal arguments, equal results equal digests."""
    tool = fields.pop("tool", "find")
    said = {"error": True, "error_text": error} if error else {"result_sha": f"sha of {result}"}
    return {
        "tool": tool,
        "args": {"q": name},
        "args_sha": f"{tool} {name}",
        "result_len": 0 if error or not result else 5_000,
        "error": False,
        **said,
        **fields,
    }


def recording(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "run_id": "lab/1",
        "source": "lab",
        "job_type": "search",
        "outcome": "completed",
        "model": "model-1",
        "calls": list(calls),
        **fields,
    }


def trace(*calls: dict[str, Any], **fields: Any) -> Trace:
    return msgspec.convert(recording(*calls, **fields), Trace)


def loop(times: int = 9) -> list[dict[str, Any]]:
    return [call("same")] * times
