from django.urls import path

from .pages.detail import run_detail
from .pages.export import run_export
from .pages.list import run_list
from .reports import pages

app_name = "runs"

urlpatterns = [
    path("", pages.overview, name="overview"),
    path("runs/", run_list, name="list"),
    path("runs/export.csv", run_export, name="export"),
    path("runs/<uuid:run_id>/", run_detail, name="detail"),
]
