"""Forms of the blocklist: which entries to list, and what to block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import Q

from guardops.guard.domains import normal_host
from guardops.tenants.forms.fields import VisibleCharField
from policies.blocklist.given import (
    EXACT,
    MAX_EVIDENCE,
    MAX_LINES,
    MOST,
    Given,
    InvalidTable,
    evidence_path,
    given_by_lines,
    given_by_table,
)
from policies.choices import BlockAction, Origin, SourceKind
from policies.errors import InvalidSource
from policies.models.sources import MAX_NOTE, MAX_REASON
from policies.publish.sources import Reach, Wanted

if TYPE_CHECKING:
    from django.http import QueryDict

    from guardops.tenants.models import Tenant
    from policies.querysets import BlockedSourceQuerySet

MAX_FILE = 1024 * 1024
_MAX_TEXT = 300_000
LASTING = {
    "1h": ("In an hour", timedelta(hours=1)),
    "1d": ("In a day", timedelta(days=1)),
    "7d": ("In 7 days", timedelta(days=7)),
    "30d": ("In 30 days", timedelta(days=30)),
    "90d": ("In 90 days", timedelta(days=90)),
}
TABS = {"": "In force", "removed": "Removed"}


class BlockFilterForm(forms.Form):
    """Which entries to list. A tenant of others is refused like one that is made up."""

    tenant = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(choices=[("", "All"), *SourceKind.choices], required=False)
    origin = forms.ChoiceField(choices=[("", "Any"), *Origin.choices], required=False)
    q = VisibleCharField(label="Find", max_length=253, required=False)
    tab = forms.ChoiceField(choices=list(TABS.items()), required=False)
    page = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)

    def __init__(self, data: QueryDict, *, tenants: Iterable[Tenant], **options: Any) -> None:
        super().__init__(data, **options)
        self.tenants = {tenant.slug: tenant for tenant in tenants}
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "All"), *((tenant.slug, tenant.name) for tenant in self.tenants.values())]

    @property
    def narrows(self) -> bool:
        return any(self.cleaned_data.get(name) for name in ("tenant", "kind", "origin", "q"))

    @property
    def tenant_chosen(self) -> Tenant | None:
        return self.tenants.get(self.cleaned_data.get("tenant", ""))

    @property
    def tenant_in_view(self) -> Tenant | None:
        """The tenant that is asked for, or the only one that there is for the reader."""
        [only] = self.tenants.values() if len(self.tenants) == 1 else [None]
        return self.tenant_chosen or only

    def narrow(self, sources: BlockedSourceQuerySet, now: datetime) -> BlockedSourceQuerySet:
        """Return those of ``sources`` that are asked for; of a tenant all that holds there."""
        asked = self.cleaned_data
        sources = sources.over(now) if asked["tab"] == "removed" else sources.standing(now)
        if tenant := self.tenant_chosen:
            sources = sources.concerning(tenant)
        for field in ("kind", "origin"):
            if asked[field]:
                sources = sources.filter(**{field: asked[field]})
        return sources.filter(_matching(asked["q"])) if asked["q"] else sources


def _matching(text: str) -> Q:
    found = Q(name__icontains=text) | Q(reason__icontains=text)
    # What people read is no part of what is kept: look for its A-label too.
    label = None if text.isascii() else normal_host(text)
    return found | Q(name__contains=label) if label else found


class BlockForm(forms.Form):
    """Asks what to block, for whom, how, until when and why; offers only the reaches that it is given."""

    place = forms.ChoiceField(label="Block for")
    names = VisibleCharField(
        label="Names",
        required=False,
        max_length=_MAX_TEXT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "autocapitalize": "off"}),
        help_text=f"One a line, at most {MAX_LINES:,}: domains, URLs, or tools.",
    )
    # Read cell by cell: what a cell shows by name may be what ends lines and cells.
    table = forms.CharField(required=False, max_length=MAX_FILE, strip=False, widget=forms.HiddenInput)
    file = forms.FileField(
        label="Or a CSV file",
        required=False,
        help_text="At most 1 MB, with a column “name”; other columns as the blocklist’s own CSV has them.",
    )
    kind = forms.ChoiceField(choices=SourceKind.choices, initial=SourceKind.DOMAIN)
    match = forms.ChoiceField(
        label="Match",
        choices=[("registrable", "The whole registrable domain"), ("exact", "This host alone")],
        initial="registrable",
    )
    action = forms.ChoiceField(
        choices=[("block", "Refuse every call"), ("limit", "Limit the calls of a run")],
        initial=BlockAction.BLOCK,
    )
    most = forms.IntegerField(
        label="Calls a run",
        required=False,
        min_value=0,
        max_value=MOST,
        help_text="Where calls are limited: how many a run may make.",
    )
    lasting = forms.ChoiceField(
        label="Expires",
        choices=[("", "Never"), *((key, label) for key, (label, _) in LASTING.items())],
        required=False,
    )
    reason = VisibleCharField(
        max_length=MAX_REASON, required=False, help_text="Told to guards, and through them to agents."
    )
    note = VisibleCharField(
        max_length=MAX_NOTE,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For people alone.",
    )
    origin = forms.ChoiceField(choices=Origin.choices, required=False, widget=forms.HiddenInput)
    evidence = VisibleCharField(max_length=MAX_EVIDENCE, required=False, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, reaches: Mapping[str, tuple[str, Reach]], now: datetime, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._reaches, self._now = reaches, now
        self.lines: list[Given] = []
        field = self.fields["place"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, label) for name, (label, _) in reaches.items()]

    @property
    def reach(self) -> Reach:
        """Of a valid form: for whom."""
        return self._reaches[self.cleaned_data["place"]][1]

    def clean_file(self) -> str:
        """Return the file as text."""
        file = self.cleaned_data["file"]
        if file is None:
            return ""
        if file.size > MAX_FILE:
            raise forms.ValidationError("The file has more than 1 MB.", code="too_large")
        try:
            text: str = file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise forms.ValidationError("The file is not in UTF-8.", code="no_text") from None
        return text

    def clean_evidence(self) -> str:
        try:
            return evidence_path(self.cleaned_data["evidence"])
        except InvalidSource as error:
            raise forms.ValidationError(error.message, code=error.code) from None

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or {}
        if asked.get("action") == BlockAction.LIMIT and asked.get("most") is None and "most" in asked:
            self.add_error("most", "Say how many calls a run may make.")
        if not self.errors:
            self._read_lines(asked)
        return asked

    def _read_lines(self, asked: dict[str, Any]) -> None:
        table = asked["file"] or asked["table"]
        where = "file" if table else "names"
        try:
            if table and asked["names"].strip():
                raise InvalidTable("Give names or a file, not both at once.", code="both")
            like = self._like(asked)
            self.lines = (
                given_by_table(table, like, self._now) if table else given_by_lines(asked["names"], like)
            )
        except InvalidTable as error:
            self.add_error(where, error.message)

    def _like(self, asked: dict[str, Any]) -> Wanted:
        lasting = LASTING.get(asked["lasting"])
        return Wanted(
            name="",
            kind=SourceKind(asked["kind"]),
            exact=EXACT[asked["match"]] and asked["kind"] == SourceKind.DOMAIN,
            action=BlockAction(asked["action"]),
            most=asked["most"] or 0,
            reason=asked["reason"],
            note=asked["note"],
            origin=Origin(asked["origin"] or Origin.MANUAL),
            evidence=asked["evidence"],
            expires_at=self._now + lasting[1] if lasting else None,
        )
