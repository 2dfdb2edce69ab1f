from django.urls import path, register_converter

from guardops.export import file_paths

from .alerts.pages import incident as incident_pages
from .alerts.pages.export import incidents_export, rules_export, silences_export
from .alerts.pages.listing import incidents
from .alerts.pages.rules import rule_edit, rules
from .alerts.pages.silences import silence_end, silence_new, silences
from .checkpoints.pages import claiming, deciding
from .checkpoints.pages.acting import review_act
from .checkpoints.pages.bulk import review_bulk
from .checkpoints.pages.detail import checkpoint
from .checkpoints.pages.export import review_export
from .checkpoints.pages.notes import write_note
from .checkpoints.pages.queue import new_count, review_queue
from .health.pages import health
from .notify.pages import channels as channel_pages
from .notify.pages.export import channels_export, deliveries_export
from .pages.advisor import advisor
from .pages.attention import attention
from .pages.case import run_case
from .pages.connect import connect, connect_status
from .pages.detail import run_detail
from .pages.export import run_export
from .pages.job_types import job_types
from .pages.list import run_list
from .pages.live import live_list
from .pages.live_count import live_count
from .pages.live_export import live_export
from .pages.policy_replay import policy_replay
from .pages.releases import releases, releases_export
from .pages.source import source, source_block
from .pages.sources import sources, sources_export
from .pages.sources_used import sources_proposed, sources_used
from .pages.storage import storage
from .reports import pages
from .reports.files import overview_file
from .review.pages import review
from .review.quality_export import quality_export
from .review.quality_page import quality
from .sources.urls import SourceNameConverter

app_name = "runs"

register_converter(SourceNameConverter, "source_name")

urlpatterns = [
    path("", pages.overview, name="overview"),
    path("attention/", attention, name="attention"),
    *file_paths("overview/<slug:table>", overview_file, "overview-export"),
    path("connect/", connect, name="connect"),
    path("connect/status/", connect_status, name="connect-status"),
    path("runs/", run_list, name="list"),
    *file_paths("runs/export", run_export, "export"),
    path("runs/live/", live_list, name="live"),
    *file_paths("runs/live/export", live_export, "live-export"),
    path("runs/advisor/", advisor, name="advisor"),
    path("runs/policy-replay/", policy_replay, name="policy-replay"),
    path("runs/job-types/", job_types, name="job-types"),
    path("runs/live/count/", live_count, name="live-count"),
    path("runs/sources/used/", sources_used, name="sources-used"),
    path("runs/sources/proposed/", sources_proposed, name="sources-proposed"),
    path("review/", review_queue, name="review-queue"),
    path("review/act/", review_act, name="review-act"),
    path("review/bulk/", review_bulk, name="review-bulk"),
    *file_paths("review/export", review_export, "review-export"),
    path("review/new/", new_count, name="review-new-count"),
    path("quality/", quality, name="quality"),
    *file_paths("quality/export", quality_export, "quality-export"),
    path("sources/", sources, name="sources"),
    *file_paths("sources/export", sources_export, "sources-export"),
    path("sources/block/", source_block, name="source-block"),
    path("sources/<slug:kind>/<source_name:name>/", source, name="source"),
    path("releases/", releases, name="releases"),
    *file_paths("releases/export", releases_export, "releases-export"),
    path("alerts/", incidents, name="incidents"),
    *file_paths("alerts/incidents", incidents_export, "incidents-export"),
    *file_paths("alerts/rules/export", rules_export, "rules-export"),
    *file_paths("alerts/silences/export", silences_export, "silences-export"),
    path("alerts/rules/", rules, name="rules"),
    path("alerts/rules/<slug:kind>/", rule_edit, name="rule-edit"),
    path("alerts/silences/", silences, name="silences"),
    path("alerts/silences/new/", silence_new, name="silence-new"),
    path("alerts/silences/<int:silence_id>/end/", silence_end, name="silence-end"),
    path("alerts/<uuid:incident_id>/", incident_pages.incident, name="incident"),
    path(
        "alerts/<uuid:incident_id>/acknowledge/",
        incident_pages.incident_acknowledge,
        name="incident-acknowledge",
    ),
    path("alerts/<uuid:incident_id>/assign/", incident_pages.incident_assign, name="incident-assign"),
    path("alerts/<uuid:incident_id>/note/", incident_pages.incident_note, name="incident-note"),
    path("alerts/<uuid:incident_id>/resolve/", incident_pages.incident_resolve, name="incident-resolve"),
    path("alerts/<uuid:incident_id>/reopen/", incident_pages.incident_reopen, name="incident-reopen"),
    path("alerts/channels/", channel_pages.channels, name="channels"),
    *file_paths("alerts/channels/export", channels_export, "channels-export"),
    path("alerts/channels/new/", channel_pages.channel_new, name="channel-new"),
    path("alerts/channels/<int:channel_id>/", channel_pages.channel, name="channel"),
    path("alerts/channels/<int:channel_id>/test/", channel_pages.channel_test, name="channel-test"),
    path("alerts/channels/<int:channel_id>/secret/", channel_pages.channel_rotate, name="channel-rotate"),
    path("alerts/channels/<int:channel_id>/remove/", channel_pages.channel_delete, name="channel-delete"),
    *file_paths("alerts/channels/<int:channel_id>/deliveries", deliveries_export, "deliveries-export"),
    path("settings/health/", health, name="health"),
    path("settings/storage/", storage, name="storage"),
    path("runs/<uuid:run_id>/", run_detail, name="detail"),
    path("runs/<uuid:run_id>/review/", review, name="review"),
    path("runs/<uuid:run_id>/case.json", run_case, name="case"),
    path("review/<uuid:checkpoint_id>/", checkpoint, name="checkpoint"),
    path("review/<uuid:checkpoint_id>/decide/", deciding.decide_checkpoint, name="checkpoint-decide"),
    path("review/<uuid:checkpoint_id>/undo/", deciding.undo_decision, name="checkpoint-undo"),
    path("review/<uuid:checkpoint_id>/claim/", claiming.claim, name="checkpoint-claim"),
    path("review/<uuid:checkpoint_id>/renew/", claiming.renew, name="checkpoint-renew"),
    path("review/<uuid:checkpoint_id>/release/", claiming.release, name="checkpoint-release"),
    path("review/<uuid:checkpoint_id>/hand-over/", claiming.hand_over, name="checkpoint-hand-over"),
    path("review/<uuid:checkpoint_id>/note/", write_note, name="checkpoint-note"),
]
