from django.apps import AppConfig


class GuardOpsConfig(AppConfig):
    """The composition: it owns the management commands and nothing in the database."""

    name = "guardops"
    label = "guardops"
