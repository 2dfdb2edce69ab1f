from django.urls import path

from .pages.advisor import advisor
from .pages.case import run_case
from .pages.connect import connect, connect_status
from .pages.detail import run_detail
from .pages.export import run_export
from .pages.job_types import job_types
from .pages.list import run_list
from .pages.live import live_list
from .pages.live_count import live_count
from .pages.policy_replay import policy_replay
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
    path("runs/advisor/", advisor, name="advisor"),
    path("runs/policy-replay/", policy_replay, name="policy-replay"),
    path("runs/job-types/", job_types, name="job-types"),
    path("runs/live/count/", live_count, name="live-count"),
    path("runs/sources/used/", sources_used, name="sources-used"),
    path("runs/sources/proposed/", sources_proposed, name="sources-proposed"),
    path("settings/storage/", storage, name="storage"),
    path("runs/<uuid:run_id>/", run_detail, name="detail"),
    path("runs/<uuid:run_id>/review/", review, name="review"),
    path("runs/<uuid:run_id>/case.json", run_case, name="case"),
]
