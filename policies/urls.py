from django.urls import path

from .pages import changes, guards, stops

app_name = "policies"

urlpatterns = [
    path("stops/", stops.stops, name="stops"),
    path("stops/new/", stops.issue, name="stop-new"),
    path("stops/<uuid:stop_id>/lift/", stops.lift, name="stop-lift"),
    path("guards/", guards.guards, name="guards"),
    path("policies/applied/", guards.applied, name="applied"),
    path("changes/<uuid:change_id>/", changes.change, name="change"),
]
