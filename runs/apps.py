from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from guardops.tenants.list_pages import register

        from .pages.saved import RUNS
        from .trail import register_trail

        register(RUNS)
        register_trail()
