from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from guardops.tenants import list_pages
        from guardops.tenants.trail import kinds

        from .alerts import saved as incidents
        from .checkpoints import webhooks
        from .choices import SubjectKind
        from .notify import subjects
        from .pages.saved import LISTS
        from .trail import KINDS

        list_pages.register(*LISTS, *incidents.LISTS)
        kinds.register(*KINDS)
        subjects.register(SubjectKind.DECISION, webhooks.body_of)
