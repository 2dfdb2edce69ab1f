from django.urls import path

from .pages.case import run_case
from .pages.connect import connect, connect_status
from .pages.detail import run_detail
from .pages.export import run_export
from .pages.list import run_list
from .pages.live import live_list
from .pages.live_count import live_count
from .pages.sources_used import sources_proposed, sources_used
from .pages.storage import storage
from .reports import pages
from .review.pages import review

app_name = "runs"

urlpatterns = [
    path("", pages.overview, name="overview"),
    path("connect/", connect, name="connect"),
    path("connect/status/", connect_status, name="connect-status"),
    path("runs/", run_list, name="list"),
    path("runs/export.csv", run_export, name="export"),
    path("runs/live/", live_list, name="live"),
    path("runs/live/count/", live_count, name="live-count"),
    path("runs/sources/used/", sources_used, name="sources-used"),
    path("runs/sources/proposed/", sources_proposed, name="sources-proposed"),
    path("settings/storage/", storage, name="storage"),
    path("runs/<uuid:run_id>/", run_detail, name="detail"),
    path("runs/<uuid:run_id>/review/", review, name="review"),
    path("runs/<uuid:run_id>/case.json", run_case, name="case"),
]
