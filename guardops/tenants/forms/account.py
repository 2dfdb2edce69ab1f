from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm

from guardops.tenants.models import User

from .fields import VisibleCharField, VisibleEmailField

if TYPE_CHECKING:
    UserForm = forms.ModelForm[User]
    SetPassword = SetPasswordForm[User]
else:
    UserForm, SetPassword = forms.ModelForm, SetPasswordForm

WHAT_A_PASSWORD_IS = "At least 8 characters; no common word, not digits alone, nothing like your name."


class AccountForm(UserForm):
    """What a person says of themselves. Another e-mail address needs the password, since it can reset it."""

    first_name = VisibleCharField(required=False, max_length=150)
    last_name = VisibleCharField(required=False, max_length=150)
    email = VisibleEmailField(
        label="E-mail address",
        required=False,
        max_length=254,
        help_text="Where a link goes when you forget your password.",
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    password = forms.CharField(
        label="Your password",
        required=False,
        strip=False,
        help_text="Needed only for another e-mail address.",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    class Meta:
        model = User
        fields = ["first_name", "last_name", "email", "keyboard_shortcuts"]
        labels = {"keyboard_shortcuts": "Keyboard shortcuts"}
        help_texts = {
            "keyboard_shortcuts": "Single keys such as j, k and ? act on pages; never while you type."
        }

    @property
    def asks_for_password(self) -> bool:
        """Say whether what was sent changes the e-mail address, for which the password counts."""
        return self.is_bound and "email" in self.changed_data

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.asks_for_password and not self.instance.check_password(cleaned.get("password") or ""):
            self.add_error("password", "This is not your password; the e-mail address stays as it was.")
        return cleaned


class NewPasswordForm(SetPassword):
    """Asks for a new password, twice."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["new_password1"].help_text = WHAT_A_PASSWORD_IS
        self.fields["new_password2"].label = "New password again"
        self.fields["new_password2"].help_text = ""


class ChangePasswordForm(NewPasswordForm, PasswordChangeForm):
    """Asks for the password in use as well."""

    field_order = ["old_password", "new_password1", "new_password2"]


class ResetForm(forms.Form):
    """Asks whose password is forgotten."""

    who = forms.CharField(
        label="Name or e-mail address",
        max_length=254,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
        error_messages={"required": "Give your name or your e-mail address."},
    )
