from django.contrib.auth.views import LogoutView
from django.urls import path

from . import views

app_name = "tenants"

urlpatterns = [
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("settings/keys/", views.keys, name="keys"),
    path("settings/keys/new/", views.create, name="key-create"),
    path("settings/keys/<int:key_id>/revoke/", views.revoke, name="key-revoke"),
]
