from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from django import forms
from django.http import QueryDict

from guardops.guard.domains import normal_host, registrable_domain
from guardops.shown import visible_text
from guardops.tenants.models import MAX_ALLOWED_DOMAINS, MAX_RETENTION_DAYS, Organisation, Tenant
from guardops.tenants.validators import known_zone

from .fields import VisibleCharField

if TYPE_CHECKING:
    NewTenantForm = forms.ModelForm[Tenant]
else:
    NewTenantForm = forms.ModelForm

_MOST_ERRORS = 20
_LONGEST_SHOWN = 80


@cache
def place_zones() -> list[str]:
    """Return the zones that people know by a place, and UTC."""
    named = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ["UTC", *named]


class DomainsField(VisibleCharField):
    """Domains, one a line, as sorted hosts in their one spelling; says what is wrong with each bad line."""

    widget = forms.Textarea

    def prepare_value(self, value: Any) -> Any:
        # A browser ends each line with a return as well, which is no character of the text.
        text = "\n".join(value if isinstance(value, list) else (value or "").splitlines())
        return super().prepare_value(text)

    def clean(self, value: Any) -> Any:
        text, hosts, wrong = super().clean(value), set(), []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                host, fault = read_domain(line.strip())
                hosts.add(host)
                if fault:
                    shown = visible_text(line.strip()[:_LONGEST_SHOWN])
                    wrong.append(f"Line {number}, “{shown}”: {fault}")
        if len(hosts) > MAX_ALLOWED_DOMAINS:
            wrong.append(f"These are {len(hosts)} domains; at most {MAX_ALLOWED_DOMAINS} are kept.")
        if len(wrong) > _MOST_ERRORS:
            wrong[_MOST_ERRORS:] = [f"So are {len(wrong) - _MOST_ERRORS} lines more."]
        if wrong:
            raise forms.ValidationError(wrong)
        return sorted(hosts)


def read_domain(text: str) -> tuple[str, str]:
    """Return the host that ``text`` names, in its one spelling, and what is wrong with it if anything is."""
    if "/" in text:
        return text, "write the domain alone, without https:// and path."
    if text.startswith("*"):
        return text, "leave out the star: a domain covers what is below it."
    host = normal_host(text)
    if host is None:
        return text, "this is no domain."
    if ":" in host or host.replace(".", "").isdigit():
        return host, "this is an address, not a domain."
    if "." not in host:
        return host, "a domain has a dot, such as example.com."
    if registrable_domain(host) is None:
        return host, "anybody can register below this one; name the domain itself."
    return host, ""


class OrganisationForm(forms.Form):
    """What an organisation decides for all its tenants, and which version of it was opened."""

    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)
    name = VisibleCharField(max_length=128)
    time_zone = VisibleCharField(
        label="Time zone",
        max_length=64,
        validators=[known_zone],
        help_text="The clock of its people until they choose one, as of their next sign-in.",
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off"}),
    )
    retention_days = forms.IntegerField(
        label="Keep runs for (days)", required=False, min_value=1, max_value=MAX_RETENTION_DAYS
    )
    allowed_domains = DomainsField(
        label="Domains that are never blocked",
        required=False,
        help_text="One a line; each covers what is below it. Blocking one of them is refused.",
    )

    def __init__(self, data: QueryDict | None, *, organisation: Organisation, longest: int) -> None:
        super().__init__(data, initial=_values(organisation))
        self.fields["retention_days"].help_text = (
            f"Older runs are deleted for good; their counts stay. Empty means {longest} days, as this "
            "installation keeps them; a longer time comes to no more than that."
        )

    @property
    def zones(self) -> list[str]:
        return place_zones()

    def differences(self, current: Organisation) -> Iterator[tuple[str, str, str]]:
        """Yield label, value in force and value sent of each setting in which the two differ."""
        for name, value in _values(current).items():
            if name != "version" and self.cleaned_data[name] != value:
                yield (
                    str(self.fields[name].label or name.capitalize()),
                    _said(value),
                    _said(self.cleaned_data[name]),
                )


def _values(organisation: Organisation) -> dict[str, Any]:
    names = ("version", "name", "time_zone", "retention_days", "allowed_domains")
    return {name: getattr(organisation, name) for name in names}


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "the installation's" if value is None else str(value)


class TenantForm(NewTenantForm):
    """Asks for a new tenant's name and slug."""

    name = VisibleCharField(
        max_length=128,
        help_text="As people read it; can be changed.",
        error_messages={"required": "Give the tenant a name."},
    )

    class Meta:
        model = Tenant
        fields = ["name", "slug"]
        help_texts = {
            "slug": "As events, keys and addresses name it, such as research-eu. It can't be changed later."
        }
        error_messages = {"slug": {"unique": "This slug is taken; slugs are unique in the installation."}}


class TenantNameForm(forms.Form):
    """Asks for another name."""

    name = VisibleCharField(max_length=128, error_messages={"required": "Give the tenant a name."})
