"""What somebody fills in of a channel: the same questions for all, and one form a kind for where it leads."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator, RegexValidator

from guardops.shown import visible_text
from guardops.tenants.forms.fields import VisibleCharField
from runs.choices import ChannelKind, Severity
from runs.models import Channel
from runs.models.notify import MAX_NAME

from . import client
from .addresses import (
    PAGERDUTY_URL,
    Address,
    AlertmanagerAddress,
    MailAddress,
    PagerDutyAddress,
    ServiceAddress,
    WebhookAddress,
    new_signing_secret,
)
from .channels import Place
from .senders.services import SERVICES, service_of

MAX_ADDRESSES = 20
GROUPS = {0: "At once", 20: "Within 20 seconds", 60: "Within a minute", 300: "Within 5 minutes"}
REPEATS = {0: "Never", 1: "Every hour", 4: "Every 4 hours", 12: "Every 12 hours", 24: "Every day"}
_WANTS = ("name", "incidents", "severity", "endings", "decisions", "group_s", "repeat_h", "enabled")


class AddressesField(VisibleCharField):
    """E-mail addresses, one a line or separated by commas."""

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value("\n".join(value) if isinstance(value, tuple) else value)

    def clean(self, value: Any) -> Any:
        given = [
            part.strip() for part in super().clean(value).replace(",", "\n").splitlines() if part.strip()
        ]
        check = EmailValidator(allowlist=["localhost"])
        for address in given:
            try:
                check(address)
            except ValidationError:
                raise forms.ValidationError(f"“{visible_text(address[:80])}” is no e-mail address.") from None
        if len(given) > MAX_ADDRESSES:
            raise forms.ValidationError(f"At most {MAX_ADDRESSES} addresses; use a list of your mail server.")
        return tuple(dict.fromkeys(given))


class TargetField(VisibleCharField):
    """A web address that may be sent to, as far as that can be said without asking the network."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=client.MAX_URL, **options)

    def clean(self, value: Any) -> Any:
        url = super().clean(value)
        if not url:
            return url
        try:
            target = client.target_of(url)
            literal = _literal(target.host)
            if literal is not None:
                client.judge(literal, https=target.https)
        except (client.InvalidAddress, client.RefusedAddress) as error:
            raise forms.ValidationError(error.message) from None
        return url


class ChannelForm(forms.Form):
    """What a channel is called and what it is told; its kinds add where it leads."""

    kind: ChannelKind
    name = VisibleCharField(max_length=MAX_NAME, error_messages={"required": "Give the channel a name."})
    place = forms.ChoiceField(
        label="Tells of", help_text="A channel of an organisation is told of all its tenants."
    )
    incidents = forms.BooleanField(label="Tell of incidents", required=False, initial=True)
    severity = forms.ChoiceField(
        label="From which severity on", choices=Severity.choices, initial=Severity.WARNING
    )
    endings = forms.BooleanField(label="Tell that an incident is over, too", required=False, initial=True)
    group_s = forms.TypedChoiceField(
        label="Gather incidents in one message",
        choices=[*GROUPS.items()],
        coerce=int,
        initial=20,
        help_text="An attack opens several at once; so they come as one.",
    )
    repeat_h = forms.TypedChoiceField(
        label="Tell again while nobody acknowledges",
        choices=[*REPEATS.items()],
        coerce=int,
        initial=4,
    )

    def __init__(
        self,
        data: Any = None,
        *,
        places: Mapping[str, Place],
        channel: Channel | None = None,
        address: Address | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        self.channel, self.address = channel, address
        values = {name: getattr(channel, name) for name in _WANTS} if channel else {}
        super().__init__(data, initial={**(initial or {}), **values, **self.of_address(address)})
        self._places = places
        if channel is None:
            field = self.fields["place"]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [(key, place_label(key, place)) for key, place in places.items()]
            return
        del self.fields["place"]
        self.fields["enabled"] = forms.BooleanField(label="Switched on", required=False)
        self.fields["version"] = forms.IntegerField(
            min_value=1, max_value=2**31 - 1, widget=forms.HiddenInput, initial=channel.version
        )

    @staticmethod
    def of_address(address: Any) -> Mapping[str, Any]:
        """Return what of an address the form shows; never a secret."""
        return {}

    def new_address(self) -> Address | None:
        """Return where the channel is to lead; None where that stays as it is."""
        return None

    @property
    def about_address(self) -> list[forms.BoundField]:
        """The fields that say where it leads."""
        common = {*ChannelForm.base_fields, "enabled", "version", "decisions"}
        return [field for field in self if field.name not in common]

    @property
    def place_chosen(self) -> Place:
        return self._places[self.cleaned_data["place"]]

    @property
    def wants(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in _WANTS if name in self.cleaned_data}


class MailForm(ChannelForm):
    kind = ChannelKind.MAIL
    to = AddressesField(label="To", help_text="One address a line.")

    @staticmethod
    def of_address(address: Any) -> Mapping[str, Any]:
        return {"to": address.to} if address else {}

    def new_address(self) -> Address | None:
        return MailAddress(self.cleaned_data["to"])


class WebhookForm(ChannelForm):
    kind = ChannelKind.WEBHOOK
    url = TargetField(label="Address", help_text="Each message is signed as Standard Webhooks describes it.")
    decisions = forms.BooleanField(
        label="Tell of decisions on checkpoints",
        required=False,
        help_text="As guards get them, ten seconds after they were made, when they can no longer be undone.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _keep(self, "url")

    def new_address(self) -> Address | None:
        if self.cleaned_data["url"]:
            secrets = self.address.secrets if isinstance(self.address, WebhookAddress) else None
            return WebhookAddress(self.cleaned_data["url"], secrets or (new_signing_secret(),))
        return None


class PagerDutyForm(ChannelForm):
    kind = ChannelKind.PAGERDUTY
    routing_key = forms.RegexField(
        r"\A[A-Za-z0-9_-]{8,64}\Z",
        label="Integration key",
        help_text="Of an integration “Events API v2” of the service in PagerDuty.",
        error_messages={"invalid": "A key has letters and digits alone, mostly 32 of them."},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    url = TargetField(
        label="Events address",
        initial=PAGERDUTY_URL,
        help_text="In the EU https://events.eu.pagerduty.com/v2/enqueue, or what takes the same events.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        del self.fields["group_s"], self.fields["repeat_h"]  # PagerDuty gathers and repeats by itself
        _keep(self, "routing_key")

    @staticmethod
    def of_address(address: Any) -> Mapping[str, Any]:
        return {"url": address.url} if address else {}

    def new_address(self) -> Address | None:
        last = self.address.routing_key if isinstance(self.address, PagerDutyAddress) else ""
        return PagerDutyAddress(self.cleaned_data["routing_key"] or last, self.cleaned_data["url"])


class AlertmanagerForm(ChannelForm):
    kind = ChannelKind.ALERTMANAGER
    url = TargetField(label="Address", help_text="Gets what a webhook_config of Alertmanager would get.")
    token = forms.CharField(
        label="Bearer token",
        max_length=1_000,
        required=False,
        help_text="If the receiver asks for one.",
        validators=[RegexValidator(r"\A[!-~]*\Z", "A token has no spaces.")],
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _keep(self, "url")
        _keep(self, "token")

    def new_address(self) -> Address | None:
        last = self.address if isinstance(self.address, AlertmanagerAddress) else None
        url, token = self.cleaned_data["url"], self.cleaned_data["token"]
        if last and not url and not token:
            return None
        # A token goes where it was meant to go, never to another address.
        kept = last.token if last and not url else ""
        return AlertmanagerAddress(url or (last.url if last else ""), token or kept)


class ServiceForm(ChannelForm):
    kind = ChannelKind.APPRISE
    url = VisibleCharField(
        label="Address of the service",
        max_length=client.MAX_URL,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="As Apprise writes it, such as slack://TokenA/TokenB/TokenC, or as the service shows it. "
        f"One of {', '.join(SERVICES.values())}.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _keep(self, "url")

    def clean_url(self) -> ServiceAddress | None:
        if not self.cleaned_data["url"]:
            return None
        try:
            return service_of(self.cleaned_data["url"])
        except client.InvalidAddress as error:
            raise forms.ValidationError(error.message) from None

    def new_address(self) -> Address | None:
        return self.cleaned_data["url"]  # type: ignore[no-any-return]


FORMS: dict[str, type[ChannelForm]] = {
    form.kind: form for form in (MailForm, WebhookForm, PagerDutyForm, AlertmanagerForm, ServiceForm)
}


def place_label(key: str, place: Place) -> str:
    if place.organisation is None:
        return "The installation itself"
    return f"All of {visible_text(place)}" if place.tenant is None else visible_text(place)


def _keep(form: ChannelForm, name: str) -> None:
    """Let a secret field be left empty where there is one already; it is never shown again."""
    if form.address is not None:
        form.fields[name].required = False
        form.fields[name].help_text = "Kept and not shown. Fill it in only to change it."


def _literal(host: str) -> client.Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
