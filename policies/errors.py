"""Why an edit of a policy, the blocklist or a stop was not published."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from guardops.tenants.errors import GuardOpsError

if TYPE_CHECKING:
    from .models import PolicyVersion


class InvalidPolicy(GuardOpsError):
    """A policy document that no guard may run; ``field`` is the wrong key, as ``limits.max_steps``."""

    default_code: ClassVar[str] = "invalid_policy"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class PolicyChanged(GuardOpsError):
    """Somebody published a version since the editor was opened; ``current`` is the one in force."""

    default_code: ClassVar[str] = "policy_changed"

    def __init__(self, current: PolicyVersion | None) -> None:
        super().__init__("Somebody published another version since you opened this one. Nothing was saved.")
        self.current = current


class InvalidSource(GuardOpsError):
    """A name that can't be blocked: ``no_domain``, ``public_suffix``, ``ip_address``, ``own_domain``."""

    default_code: ClassVar[str] = "invalid_source"


class InvalidStop(GuardOpsError):
    """A stop order that ends nothing, or that is over before it begins."""

    default_code: ClassVar[str] = "invalid_stop"


class BundleTooLarge(GuardOpsError):
    """What a tenant's guards would have to pull is more than they take; nothing was published."""

    default_code: ClassVar[str] = "bundle_too_large"


NOT_PUBLISHED = (BundleTooLarge, InvalidPolicy)
"""What any edit of a tenant may meet: its guards would not take the bundle that comes of it."""
