from django.urls import path

from .pages import changes, editing, guards, policies, stops, versions

app_name = "policies"

urlpatterns = [
    path("policies/", policies.policies, name="list"),
    path("policies/edit/", editing.edit, name="edit"),
    path("policies/versions/", versions.versions, name="versions"),
    path("policies/rollback/", versions.rollback, name="rollback"),
    path("stops/", stops.stops, name="stops"),
    path("stops/new/", stops.issue, name="stop-new"),
    path("stops/<uuid:stop_id>/lift/", stops.lift, name="stop-lift"),
    path("guards/", guards.guards, name="guards"),
    path("policies/applied/", guards.applied, name="applied"),
    path("changes/<uuid:change_id>/", changes.change, name="change"),
]
