from django.urls import include, path

from guardops.health import livez, readyz
from runs.health.pages import metrics

urlpatterns = [
    path("healthz", livez, name="healthz"),
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("", include("guardops.tenants.urls")),
    path("", include("policies.urls")),
    path("", include("runs.urls")),
]

handler500 = "guardops.failures.failed"
