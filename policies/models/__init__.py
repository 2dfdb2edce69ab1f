"""Rows of policies; all but the fleet's are written by `policies.publish` alone, which a trigger holds."""

from .bundles import BundleRevision, Change, Epoch, GuardInstance, SigningSecret
from .policy import JobPolicy, PolicyVersion
from .sources import BlockedSource
from .stops import Stop

__all__ = [
    "BlockedSource",
    "BundleRevision",
    "Change",
    "Epoch",
    "GuardInstance",
    "JobPolicy",
    "PolicyVersion",
    "SigningSecret",
    "Stop",
]
