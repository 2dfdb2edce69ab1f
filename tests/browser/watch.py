"""Looks at pages for what an attacker might have reached: a dialog, a broken policy, foreign markup."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from playwright.sync_api import Route

from guardops.shown import from_visible
from tests.browser.conftest import Desk

LISTEN = """
window.broken = [];
document.addEventListener('securitypolicyviolation',
    event => window.broken.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""
STATUS = "performance.getEntriesByType('navigation')[0].responseStatus"
FOREIGN = Path(__file__).with_name("foreign.js").read_text(encoding="utf-8")


class Watch:
    """Opens pages of one desk; keeps what is wrong by page, which were refused, and all that was read."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.faults: dict[str, list[str]] = {}
        self.text = ""
        self.refused: list[str] = []
        self._outside: list[str] = []
        desk.context.add_init_script(LISTEN)
        desk.context.route(lambda url: not url.startswith(desk.base_url), self._refuse)

    def _refuse(self, route: Route) -> None:
        self._outside.append(f"request: {route.request.url}")
        route.abort()

    def open(self, path: str) -> None:
        self.desk.complaints.clear()
        self._outside.clear()
        if self.desk.open(path).evaluate(STATUS) >= 400:
            self.refused.append(path)
        self.look(path)

    def look(self, name: str) -> None:
        """Judge the page as it stands."""
        page = self.desk.page
        heard = [text for text in self.desk.complaints if "status of 4" not in text]
        faults = {*heard, *self._outside, *page.evaluate(FOREIGN)}
        self.text += page.inner_text("body")
        if faults:
            self.faults[name] = sorted(faults)[:5]

    def unread(self, payloads: Iterable[str]) -> list[str]:
        """Return the payloads that stood on no page, as a person reads them (white space folded)."""
        read = " ".join(from_visible(self.text).split())
        return [payload for payload in payloads if " ".join(payload.split()) not in read]
