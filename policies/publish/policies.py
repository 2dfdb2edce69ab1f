"""Publishing policies: each save is a new immutable version, and rolling back publishes an old one anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from guardops.guard.bundle import merge, read_rules
from guardops.guard.policy import PolicyError
from guardops.tenants.actors import System
from guardops.tenants.models import Organisation, Tenant, User
from policies.choices import ChangeKind
from policies.compose import above
from policies.errors import InvalidPolicy, PolicyChanged
from policies.models import Change, JobPolicy, PolicyVersion

from .changes import begin_change, go_on
from .writing import publishing


@dataclass(frozen=True, slots=True)
class Place:
    """Which policy: of a job type ('' for the defaults) in a tenant, or in the organisation (no tenant)."""

    organisation: Organisation
    tenant: Tenant | None
    job_type: str

    def __str__(self) -> str:
        what = f"the policy of {self.job_type}" if self.job_type else "the defaults"
        return f"{what} in {self.tenant.name if self.tenant else self.organisation.name}"


@dataclass(frozen=True, slots=True)
class Saved:
    """A published version, and the change that carries it to the guards."""

    version: PolicyVersion
    change: Change


def check_document(place: Place, document: Mapping[str, Any], now: datetime) -> None:
    """Raise InvalidPolicy for a document that no guard may run, alone or over what is above it."""
    tenant_id = place.tenant.pk if place.tenant else None
    check_over(above(place.organisation.pk, tenant_id, place.job_type, now), document)


def check_over(lying_above: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """The same where what is above is known."""
    try:
        read_rules(document)
        read_rules(merge(lying_above, document))
    except PolicyError as error:
        raise InvalidPolicy(error.field, str(error)) from error


def save_policy(
    place: Place,
    document: Mapping[str, Any],
    *,
    seen: int,
    actor: User | System,
    now: datetime,
    note: str = "",
    until: datetime | None = None,
    restored_from: int | None = None,
) -> Saved | None:
    """Publish a document as the next version; None where it says what is in force already.

    ``seen`` is the number of the version that the editor was shown, 0 for none. ``until`` ends a version by
    itself: the one before it holds again. Raises PolicyChanged where another version is in force, and
    InvalidPolicy or BundleTooLarge for what guards would not take.
    """
    check_document(place, document, now)
    if until is not None and until <= now:
        raise InvalidPolicy("until", "The end must lie ahead.")
    with publishing(actor):
        policy = _lock(place, seen)
        current = policy.versions.get(number=policy.version) if policy is not None else None
        if document == (current.document if current else {}) and until == (
            current.until if current else None
        ):
            return None
        version = _add_version(
            policy or JobPolicy.objects.create(**_key(place), version=1),
            PolicyVersion(
                number=seen + 1,
                document=dict(document),
                note=note,
                until=until,
                restored_from=restored_from,
                author=actor if isinstance(actor, User) else None,
                created_at=now,
            ),
        )
        change = begin_change(
            ChangeKind.POLICY,
            f"Version {version.number} of {place}",
            organisation=place.organisation,
            tenant=place.tenant,
            actor=actor,
            now=now,
        )
    go_on(change, now)
    return Saved(version, change)


def roll_back(
    place: Place,
    to: int,
    *,
    seen: int,
    actor: User | System,
    now: datetime,
    note: str = "",
    until: datetime | None = None,
) -> Saved | None:
    """Publish the document of version ``to`` as the next one. Raises as `save_policy`, and DoesNotExist."""
    old = PolicyVersion.objects.get(policy__in=JobPolicy.objects.filter(**_key(place)), number=to)
    return save_policy(
        place, old.document, seen=seen, actor=actor, now=now, note=note, until=until, restored_from=to
    )


def _key(place: Place) -> dict[str, Any]:
    return {"organisation": place.organisation, "tenant": place.tenant, "job_type": place.job_type}


def _lock(place: Place, seen: int) -> JobPolicy | None:
    """Return the policy's row, locked against other editors; it is compared with what the editor was shown.

    Two first versions meet at the unique key: locking the organisation makes one wait for the other.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=place.organisation.pk)
    policy = JobPolicy.objects.filter(**_key(place)).first()
    if (policy.version if policy else 0) != seen:
        raise PolicyChanged(policy.versions.get(number=policy.version) if policy else None)
    return policy


def _add_version(policy: JobPolicy, version: PolicyVersion) -> PolicyVersion:
    if policy.version != version.number:
        policy.version = version.number
        policy.save(update_fields=["version"])
    version.policy = policy
    version.save(force_insert=True)
    return version
