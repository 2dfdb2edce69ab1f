from django.urls import path

from guardops.export import file_paths

from .pages import (
    blocking,
    blocklist,
    changes,
    editing,
    export,
    guards,
    policies,
    signing,
    stops,
    unblocking,
    versions,
)

app_name = "policies"

urlpatterns = [
    path("policies/", policies.policies, name="list"),
    *file_paths("policies/export", export.policies_export, "policies-export"),
    *file_paths("policies/versions/export", export.versions_export, "versions-export"),
    path("policies/edit/", editing.edit, name="edit"),
    path("policies/versions/", versions.versions, name="versions"),
    path("policies/rollback/", versions.rollback, name="rollback"),
    path("blocklist/", blocklist.blocklist, name="blocklist"),
    *file_paths("blocklist/export", blocklist.blocklist_file, "blocklist-csv"),
    path("blocklist/proposed/", blocklist.proposed, name="blocklist-proposed"),
    path("blocklist/add/", blocking.add, name="blocklist-add"),
    path("blocklist/remove/", unblocking.remove_many, name="blocklist-remove-many"),
    path("blocklist/<int:source_id>/remove/", unblocking.remove, name="blocklist-remove"),
    path("blocklist/<int:source_id>/restore/", unblocking.restore, name="blocklist-restore"),
    path("blocklist/revert/<uuid:change_id>/", unblocking.revert, name="blocklist-revert"),
    path("stops/", stops.stops, name="stops"),
    *file_paths("stops/export", export.stops_export, "stops-export"),
    path("stops/new/", stops.issue, name="stop-new"),
    path("stops/<uuid:stop_id>/lift/", stops.lift, name="stop-lift"),
    path("guards/", guards.guards, name="guards"),
    *file_paths("guards/export", export.guards_export, "guards-export"),
    path("signing/", signing.signing, name="signing"),
    path("signing/<slug:slug>/rotate/", signing.rotate, name="signing-rotate"),
    path("policies/applied/", guards.applied, name="applied"),
    path("changes/<uuid:change_id>/", changes.change, name="change"),
]
