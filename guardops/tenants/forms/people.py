from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.forms import BaseUserCreationForm

from guardops.shown import visible_text
from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, Tenant, User

from .account import WHAT_A_PASSWORD_IS
from .fields import VisibleCharField, VisibleEmailField

if TYPE_CHECKING:
    NewUserForm = BaseUserCreationForm[User]
else:
    NewUserForm = BaseUserCreationForm

WHAT_ROLES_MAY = {
    Role.VIEWER: "Reads runs, stops and costs.",
    Role.REVIEWER: "Also judges stops and decides what waits for a person.",
    Role.ADMIN: "Also changes policies, keys and who is a member.",
}
_ROLES = [(role.value, f"{role.label}. {may}") for role, may in WHAT_ROLES_MAY.items()]


def role_field() -> forms.ChoiceField:
    return forms.ChoiceField(
        label="Role",
        choices=_ROLES,
        initial=Role.VIEWER.value,
        widget=forms.RadioSelect,
        error_messages={"required": "Choose a role."},
    )


class InviteForm(forms.Form):
    """Asks whom to invite, to where and as what; offers only the places that it is given."""

    invitee = VisibleCharField(
        label="Whom",
        max_length=254,
        help_text="An e-mail address, or a name for your own list.",
        error_messages={"required": "Say whom you invite."},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    place = forms.ChoiceField(label="Where", error_messages={"required": "Choose where."})
    role = role_field()

    def __init__(
        self, *args: Any, organisations: Iterable[Organisation], tenants: Iterable[Tenant], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._places: dict[str, tuple[Organisation, Tenant | None]] = {}
        choices = []
        for organisation in organisations:
            self._places[f"organisation:{organisation.slug}"] = organisation, None
            choices.append(
                (f"organisation:{organisation.slug}", f"{visible_text(organisation.name)}: every tenant")
            )
        for tenant in tenants:
            self._places[f"tenant:{tenant.slug}"] = tenant.organisation, tenant
            choices.append((f"tenant:{tenant.slug}", visible_text(tenant.name)))
        field = self.fields["place"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    @property
    def organisation(self) -> Organisation:
        return self._places[self.cleaned_data["place"]][0]

    @property
    def tenant(self) -> Tenant | None:
        return self._places[self.cleaned_data["place"]][1]


class RoleForm(forms.Form):
    """Asks for another role."""

    role = role_field()

    def clean_role(self) -> Role:
        return Role(self.cleaned_data["role"])


class NewPersonForm(NewUserForm):
    """Asks who is new for a name, an e-mail address and a password; ``invitations`` makes the person."""

    username = VisibleCharField(
        label="Name",
        max_length=150,
        help_text="What you sign in with: letters, digits and @ . + - _",
        validators=[User.username_validator],
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )
    email = VisibleEmailField(
        label="E-mail address",
        required=False,
        max_length=254,
        help_text="May stay empty; a forgotten password can be reset through it.",
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )

    class Meta:
        model = User
        fields = ["username", "email"]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["password1"].help_text = WHAT_A_PASSWORD_IS
        self.fields["password2"].label = "Password again"
        self.fields["password2"].help_text = ""
