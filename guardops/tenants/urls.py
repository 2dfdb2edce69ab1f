from django.contrib.auth.views import LogoutView
from django.urls import path

from .pages import keys, login, saved_views

app_name = "tenants"

urlpatterns = [
    path("login/", login.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("views/<slug:page>/", saved_views.saved_views, name="saved-views"),
    path("views/<slug:page>/<int:view_id>/rename/", saved_views.rename, name="saved-view-rename"),
    path("views/<slug:page>/<int:view_id>/delete/", saved_views.delete, name="saved-view-delete"),
    path("settings/keys/", keys.keys, name="keys"),
    path("settings/keys/keys.csv", keys.keys_csv, name="keys-csv"),
    path("settings/keys/new/", keys.create, name="key-create"),
    path("settings/keys/<int:key_id>/rotate/", keys.rotate, name="key-rotate"),
    path("settings/keys/<int:key_id>/revoke/", keys.revoke, name="key-revoke"),
]
