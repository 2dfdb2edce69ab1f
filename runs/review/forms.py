from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.shown import from_visible, visible_text
from runs.choices import StopVerdict
from runs.models.reviews import MAX_NOTE

if TYPE_CHECKING:
    from runs.models import StopReview


class SeenField(forms.CharField):
    """The time of the review that the form was made from, to the microsecond; empty where there was none."""

    widget = forms.HiddenInput
    default_error_messages = {"invalid": "This form is not one of ours; open the page again."}

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            seen: datetime | None = datetime.fromisoformat(text)
        except ValueError:
            seen = None
        # Reviews are of this age: there is a time just after theirs, and the same in UTC.
        if seen is None or seen.tzinfo is None or not 2000 <= seen.year < 3000:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        # The database knows no offset of half a second.
        return seen.astimezone(UTC)


class StopReviewForm(forms.Form):
    """Asks whether a stop was right; offers the reasons that the run names, the one that ended it first."""

    verdict = forms.ChoiceField(
        choices=[
            (StopVerdict.FALSE_STOP, "False stop: the run was doing useful work"),
            (StopVerdict.RIGHT_STOP, "Right stop: going on would have been of no use"),
        ],
        initial=StopVerdict.FALSE_STOP,
        widget=forms.RadioSelect,
        error_messages={"required": "Say whether it was right."},
    )
    detector = forms.ChoiceField(label="Judged reason", help_text="What the guard stopped it for.")
    note = forms.CharField(
        max_length=MAX_NOTE,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="For whoever sets the limits: what was it doing? At most 2,000 characters.",
    )
    seen = SeenField(required=False)

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, reasons: Sequence[str], current: StopReview | None
    ) -> None:
        kept = {name: getattr(current, name) for name in ("verdict", "detector", "note")} if current else {}
        # What cannot be seen is written out, here and in the page, and read back by the methods above.
        initial = {name: visible_text(value) for name, value in ({"detector": reasons[0]} | kept).items()}
        self.reasons = reasons
        super().__init__(data, initial={**initial, "seen": mark_of(current)})
        detector = self.fields["detector"]
        assert isinstance(detector, forms.ChoiceField)
        offered = dict.fromkeys(visible_text(code) for code in [*reasons, kept.get("detector", "")] if code)
        detector.choices = [(code, code) for code in offered]

    def clean_detector(self) -> str:
        return from_visible(self.cleaned_data["detector"])

    def clean_note(self) -> str:
        return from_visible(self.cleaned_data["note"])

    def as_seen(self, current: StopReview | None) -> StopReviewForm:
        """Return the form with what was typed, made anew from the review that stands."""
        data = {name: self.data.get(name, "") for name in self.fields} | {"seen": mark_of(current)}
        return StopReviewForm(data, reasons=self.reasons, current=current)


def mark_of(current: StopReview | None) -> str:
    """Return what a form keeps of the review that it was made from."""
    return current.at.isoformat() if current else ""
