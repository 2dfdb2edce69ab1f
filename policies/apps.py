from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "policies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from guardops.tenants import list_pages
        from guardops.tenants.trail import kinds

        from .lists import LISTS
        from .trail import KINDS

        list_pages.register(*LISTS)
        kinds.register(*KINDS)
