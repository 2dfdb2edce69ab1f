"""Fields of policy forms. What is left empty is inherited, so each gives None for it."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

from django import forms

from guardops.guard.errors import ErrorClass
from guardops.shown import visible_text
from guardops.tenants.forms.fields import VisibleCharField

MAX_NAMES = 100
MAX_NAME = 128
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,6})?", re.ASCII)
_MAX_INTEGER = 2**53
_DEEPEST = 20

Choices = list[tuple[str, str]]
YES_OR_NO: Choices = [("yes", "Yes"), ("no", "No")]


class NumberField(forms.CharField):
    """A number as documents write it: whole, with a fraction, or money as a decimal string in USD.

    Whether it is too high or too low is the guard's to say.
    """

    widget = forms.TextInput(attrs={"autocomplete": "off"})

    def __init__(self, *, whole: bool = True, money: bool = False, **options: Any) -> None:
        super().__init__(required=False, max_length=24, **options)
        self.whole, self.money = whole and not money, money
        self.widget.attrs["inputmode"] = "numeric" if self.whole else "decimal"

    def say_inherited(self, value: Any) -> None:
        """Show the number that leaving the field empty means, where there is one."""
        self.widget.attrs["placeholder"] = "none" if value is None else self.prepare_value(value)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return visible_text(value) if isinstance(value, str) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value).replace(",", "")
        if not text:
            return None
        if not _NUMBER.fullmatch(text):
            raise forms.ValidationError("Write a number; empty inherits.", code="no_number")
        if self.money:
            return text
        number = Decimal(text)
        if number == number.to_integral_value():
            return int(number)
        if self.whole:
            raise forms.ValidationError("Write a whole number.", code="not_whole")
        return float(number)


class InheritField(forms.ChoiceField):
    """A choice that may also be left to what lies above; ``inherit`` says in words what that is."""

    def __init__(self, *, choices: Choices, **options: Any) -> None:
        super().__init__(required=False, choices=[("", "Inherit"), *choices], **options)
        self.own = choices

    def say_inherited(self, said: str) -> None:
        """Name the value that leaving the field empty means."""
        self.choices = [("", f"Inherit: {said}"), *self.own]

    def clean(self, value: Any) -> Any:
        return super().clean(value) or None


class FlagField(InheritField):
    """Yes, no, or inherited."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=YES_OR_NO, **options)

    def prepare_value(self, value: Any) -> Any:
        return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value

    def clean(self, value: Any) -> Any:
        return {"yes": True, "no": False}.get(super().clean(value) or "")


class NamesField(VisibleCharField):
    """Names with commas between them, as a sorted list."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=4_000, **options)

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(", ".join(value) if isinstance(value, list | tuple) else value)

    def clean(self, value: Any) -> Any:
        names = sorted({name.strip() for name in super().clean(value).split(",")} - {""})
        if len(names) > MAX_NAMES or any(len(name) > MAX_NAME for name in names):
            raise forms.ValidationError(f"At most {MAX_NAMES} names, of at most {MAX_NAME} characters.")
        return names or None


class ErrorMapField(VisibleCharField):
    """Lines of ``code = class``, as a mapping."""

    widget = forms.Textarea(attrs={"rows": 2})

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=4_000, **options)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            value = "\n".join(f"{code} = {kind}" for code, kind in value.items())
        return super().prepare_value("\n".join(value.splitlines()) if isinstance(value, str) else value)

    def clean(self, value: Any) -> Any:
        found = {}
        for line in super().clean(value).splitlines():
            if line.strip():
                code, _, kind = (part.strip() for part in line.rpartition("="))
                if not code or len(code) > MAX_NAME or kind not in list(ErrorClass):
                    raise forms.ValidationError(
                        f"One “code = class” a line; a class is one of {', '.join(ErrorClass)}."
                    )
                found[code] = kind
        return found or None


class ValuesField(VisibleCharField):
    """Results, one a line: JSON where the line is that, else the text itself."""

    widget = forms.Textarea(attrs={"rows": 2})

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=4_000, **options)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, list):
            value = "\n".join(_line(item) for item in value)
        return super().prepare_value("\n".join(value.splitlines()) if isinstance(value, str) else value)

    def clean(self, value: Any) -> Any:
        values = [_read(line.strip()) for line in super().clean(value).splitlines() if line.strip()]
        if len(values) > MAX_NAMES:
            raise forms.ValidationError(f"At most {MAX_NAMES} results.")
        if not all(_is_storable(item) for item in values):
            raise forms.ValidationError("These hold a number or a character that no document can.")
        return values or None


def _line(item: Any) -> str:
    if isinstance(item, str) and _read(item) == item:
        return item
    return json.dumps(item, ensure_ascii=False)


def _read(line: str) -> Any:
    if line.count("[") + line.count("{") > _DEEPEST:
        return line
    try:
        return json.loads(line)
    except ValueError:
        return line


def _is_storable(item: Any) -> bool:
    match item:
        case bool() | None:
            return True
        case int():
            return abs(item) <= _MAX_INTEGER
        case float():
            return math.isfinite(item)
        case str():
            return "\0" not in item and not any("\ud800" <= char <= "\udfff" for char in item)
        case list():
            return all(map(_is_storable, item))
    return all(_is_storable(part) for pair in item.items() for part in pair)
