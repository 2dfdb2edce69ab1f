"""Sources that stand out in halted runs of several tenants: told to operators, and to each tenant concerned.

A tenant learns that it is not alone and how many there are, never who: names are for operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from guardops import shown
from policies.models import BlockedSource
from runs.alerts.evidence import Evidence, Figure
from runs.alerts.incidents import Finding
from runs.alerts.rules import Setting
from runs.alerts.verdicts import Asked, Verdict
from runs.choices import RuleKind
from runs.sources.crossing import read_owners
from runs.sources.signals import DAYS, Signal, signals


def check_source(asked: Asked) -> Verdict:
    """Find the sources that `runs.sources` calls a signal, where they are not on the blocklist."""
    found = signals(asked.now)
    findings = []
    for signal, open_to in _not_blocked(found, asked.now):
        for place in (None, *open_to) if open_to else ():
            setting = asked.settings.of(place)
            if setting.enabled and signal.lift.ratio >= setting["lift"]:
                findings.append(_finding(signal, place, setting))
    return Verdict(findings)


def _not_blocked(found: Sequence[Signal], now: datetime) -> Iterator[tuple[Signal, list[int]]]:
    """Yield each signal with those of its tenants that may still use the source."""
    owners = read_owners()
    blocks = defaultdict(set)
    standing = BlockedSource.objects.standing(now).filter(name__in=[each.name for each in found], exact=False)
    for kind, name, organisation, tenant in standing.values_list("kind", "name", "organisation", "tenant"):
        blocks[kind, name].add((organisation, tenant))
    for signal in found:
        held = blocks[signal.kind, signal.name]
        covering = [{(None, None), (owners[each], None), (owners[each], each)} for each in signal.tenant_ids]
        open_to = [each for each, by in zip(signal.tenant_ids, covering, strict=True) if not by & held]
        yield signal, open_to


def _finding(signal: Signal, place: int | None, setting: Setting) -> Finding:
    least = "at least " if signal.lift.at_least else ""
    times = f"{least}{signal.lift.known:,.0f}×"
    others = "stopped runs of several tenants, this one among them," if place else "stopped runs"
    evidence = Evidence(
        figures=_figures(signal, times, told=place is None),
        facts=[f"Counted over the last {DAYS} days. Block it where completed runs don't need it."],
    )
    return Finding(
        tenant_id=place,
        rule=RuleKind.SOURCE,
        subject=signal.source,
        title=(
            f"{signal.name} is used {times} as often in {others} as in completed ones, by"
            f" {shown.count(signal.tenants)} tenants; first seen {signal.first_seen:%d %b}."
        ),
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"list": "source", "kind": signal.kind, "name": signal.name},
    )


def _figures(signal: Signal, times: str, *, told: bool) -> list[Figure]:
    """Return what is known; counts of all tenants' runs are ``told`` to operators alone."""
    lift = signal.lift
    organisations = f"of {shown.count(signal.organisations)} organisations" if told else ""
    return [
        Figure("Tenants", shown.count(signal.tenants), organisations),
        Figure("Lift", times, f"95 % between {lift.low:,.1f} and {lift.high:,.1f}"),
        Figure(
            "In stopped runs",
            shown.share(lift.stopped_share),
            f"{shown.count(signal.stopped)} runs" if told else "",
        ),
        Figure(
            "In completed runs",
            shown.share(lift.completed_share),
            f"{shown.count(signal.completed)} runs" if told else "",
        ),
        Figure("First seen", f"{signal.first_seen:%d %b %Y}"),
    ]
