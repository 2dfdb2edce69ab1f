from django.urls import include, path

from guardops.health import healthz

urlpatterns = [
    path("healthz", healthz),
    path("", include("guardops.tenants.urls")),
    path("", include("policies.urls")),
    path("", include("runs.urls")),
]

handler500 = "guardops.failures.failed"
