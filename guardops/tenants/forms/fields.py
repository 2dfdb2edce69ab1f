from __future__ import annotations

from typing import Any

from django import forms

from guardops.shown import from_visible, visible_text


class VisibleCharField(forms.CharField):
    """A text that people write, shown with every unseen character by name and read back from that."""

    def prepare_value(self, value: Any) -> Any:
        return visible_text(value) if isinstance(value, str) else value

    def to_python(self, value: Any) -> str:
        return super().to_python(from_visible(value) if isinstance(value, str) else value) or ""


class VisibleEmailField(forms.EmailField):
    """An e-mail address, shown in the same way."""

    def prepare_value(self, value: Any) -> Any:
        return visible_text(value) if isinstance(value, str) else value
