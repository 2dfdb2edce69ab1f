from django.urls import include, path

urlpatterns = [
    path("", include("guardops.tenants.urls")),
    path("", include("runs.urls")),
]
