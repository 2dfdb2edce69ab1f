from django.contrib.auth.views import LogoutView
from django.urls import path

from guardops.export import file_paths

from .pages import (
    account,
    audit,
    export,
    invitations,
    keys,
    login,
    members,
    organisations,
    passwords,
    saved_views,
)

app_name = "tenants"

urlpatterns = [
    path("login/", login.Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("password/forgotten/", passwords.forgotten, name="password-reset"),
    path("password/new/<str:uid>/<str:token>/", passwords.by_link, name="password-link"),
    path("invitation/<str:token>/", invitations.invitation, name="invitation"),
    path("views/<slug:page>/", saved_views.saved_views, name="saved-views"),
    path("views/<slug:page>/<int:view_id>/rename/", saved_views.rename, name="saved-view-rename"),
    path("views/<slug:page>/<int:view_id>/delete/", saved_views.delete, name="saved-view-delete"),
    path("settings/audit/", audit.audit, name="audit"),
    *file_paths("settings/audit/audit", audit.audit_file, "audit-csv"),
    path("settings/", account.settings, name="settings"),
    path("settings/account/", account.account, name="account"),
    path("settings/account/password/", passwords.change, name="password-change"),
    path("settings/organisations/", organisations.organisations, name="organisations"),
    *file_paths("settings/tenants", export.tenants_export, "tenants-export"),
    path("settings/organisations/<slug:slug>/", organisations.organisation, name="organisation"),
    path("settings/organisations/<slug:slug>/new-tenant/", organisations.create, name="tenant-create"),
    path("settings/tenants/<slug:slug>/", organisations.rename, name="tenant-rename"),
    path("settings/members/", members.members, name="members"),
    *file_paths("settings/members/members", export.members_export, "members-export"),
    *file_paths("settings/members/invitations", export.invitations_export, "invitations-export"),
    path("settings/members/invite/", members.create_invitation, name="invite"),
    path("settings/members/<int:membership_id>/", members.member, name="member"),
    path("settings/members/<int:membership_id>/remove/", members.remove, name="member-remove"),
    path(
        "settings/invitations/<int:invitation_id>/revoke/",
        members.withdraw_invitation,
        name="invitation-revoke",
    ),
    path("settings/keys/", keys.keys, name="keys"),
    *file_paths("settings/keys/keys", keys.keys_file, "keys-csv"),
    path("settings/keys/new/", keys.create, name="key-create"),
    path("settings/keys/<int:key_id>/rotate/", keys.rotate, name="key-rotate"),
    path("settings/keys/<int:key_id>/revoke/", keys.revoke, name="key-revoke"),
]
