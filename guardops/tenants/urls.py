from django.contrib.auth.views import LogoutView
from django.urls import path

from .pages import keys, login

app_name = "tenants"

urlpatterns = [
    path("login/", login.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("settings/keys/", keys.keys, name="keys"),
    path("settings/keys/new/", keys.create, name="key-create"),
    path("settings/keys/<int:key_id>/revoke/", keys.revoke, name="key-revoke"),
]
