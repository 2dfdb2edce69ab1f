from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "policies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from guardops.tenants.trail import kinds

        from .trail import KINDS

        kinds.register(*KINDS)
