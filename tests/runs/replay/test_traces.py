from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from runs.replay.traces import TraceError, read_json_object, read_traces

RUN = {
    "run_id": "lab/1",
    "source": "lab",
    "job_type": "search",
    "outcome": "completed",
    "model": None,
    "calls": [{"tool": "find", "args": {"q": "x"}, "args_sha": "a1", "result_sha": "b1", "result_len": 3}],
    "label": {"anything": 1},
}


def written(path: Path, *lines: str, zipped: bool = False) -> Path:
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if zipped else text)
    return path


@pytest.mark.parametrize("zipped", [False, True])
def test_plain_and_gzip_files_give_the_same_runs(tmp_path: Path, zipped: bool) -> None:
    path = written(
        tmp_path / "runs", json.dumps(RUN), "", json.dumps(RUN | {"run_id": "lab/2"}), zipped=zipped
    )

    runs = list(read_traces(path))

    assert [run.run_id for run in runs] == ["lab/1", "lab/2"]
    assert runs[0].calls[0].args_sha == "a1"
    assert runs[0].release == "unnamed"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: Input data was truncated"),
        ("[]", "line 2: Expected `object`"),
        (json.dumps(RUN | {"outcome": "won"}), "line 2: Invalid enum value 'won'"),
        (json.dumps(RUN | {"duration_s": -1}), "line 2: Expected `float` >= 0"),
        (json.dumps({"run_id": "lab/3"}), "line 2: Object missing required field"),
        ('"\udcff"', "line 2: "),
    ],
)
def test_a_line_that_is_no_run_is_named_with_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "runs"
    path.write_bytes(json.dumps(RUN).encode() + b"\n" + line.encode(errors="surrogateescape"))

    with pytest.raises(TraceError, match="line 2") as raised:
        list(read_traces(path))

    assert complaint in str(raised.value)


def test_a_truncated_gzip_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.gz", *[json.dumps(RUN)] * 50, zipped=True)
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(TraceError, match=r"runs\.gz cannot be read"):
        list(read_traces(path))


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="absent cannot be read"):
        list(read_traces(tmp_path / "absent"))


def test_errors_with_one_text_have_one_identity_whatever_their_result(tmp_path: Path) -> None:
    failed = {"tool": "find", "args_sha": "a1", "error": True, "error_text": "no such table"}
    calls = [
        failed | {"result_sha": "b1"},
        failed | {"result_sha": "b2"},
        failed | {"error": False, "result_sha": "b1"},
    ]
    path = written(tmp_path / "runs", json.dumps(RUN | {"calls": calls}))

    first, second, good = next(read_traces(path)).calls

    assert first.result_identity == second.result_identity != good.result_identity


def test_a_tool_file_that_is_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="Expected `object`"):
        read_json_object(written(tmp_path / "tools.json", "[]"))
