from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_every_variable_that_is_read_is_in_the_readme() -> None:
    source = "\n".join(path.read_text() for path in (CHECKOUT / "guardops").rglob("*.py"))
    read = set(re.findall(r'"((?:GUARDOPS_|DATABASE_|BROKER_)[A-Z_]+)"', source))
    readme = (CHECKOUT / "README.md").read_text()
    assert {name for name in read if f"`{name}`" not in readme} == set()
