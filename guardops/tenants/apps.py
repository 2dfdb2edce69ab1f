from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "guardops.tenants"
    label = "tenants"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import list_pages
        from .lists import LISTS
        from .trail.kinds import register
        from .trail.own import KINDS

        register(*KINDS)
        list_pages.register(*LISTS)
