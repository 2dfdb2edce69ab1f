"""Pages of channels: who is told, with a test and what was delivered. Admins and operators alone see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from guardops.tenants.errors import EditedMeanwhile
from guardops.tenants.mail import is_configured
from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.choices import ChannelKind, NotificationState
from runs.models import Notification
from runs.notify import access
from runs.notify.addresses import Address, WebhookAddress, opened
from runs.notify.channels import (
    GRACE,
    InvalidChannel,
    create_channel,
    remove_channel,
    rotate_secret,
    try_out,
    update_channel,
)
from runs.notify.forms import FORMS, ChannelForm
from runs.notify.secrets import Unreadable

if TYPE_CHECKING:
    from runs.models import Channel

DELIVERIES_PER_PAGE = 50
KINDS = [
    (ChannelKind.MAIL, "To people or a list, over the installation's mail server."),
    (ChannelKind.PAGERDUTY, "Opens, acknowledges and resolves incidents of a service."),
    (ChannelKind.APPRISE, "Slack, Discord, Telegram, Google Chat, Webex, Pushover, Pushbullet, Opsgenie."),
    (ChannelKind.WEBHOOK, "JSON to an address of yours, signed; incidents and decisions."),
    (ChannelKind.ALERTMANAGER, "JSON as Prometheus Alertmanager sends it."),
]


@never_cache
@require_safe
def channels(request: AuthenticatedRequest) -> HttpResponse:
    last = Notification.objects.filter(channel=OuterRef("pk")).exclude(state=NotificationState.DROPPED)
    newest = last.order_by("-id")
    listed = access.channels_to_manage(request.user).annotate(
        last_state=Subquery(newest.values("state")[:1]),
        last_at=Subquery(newest.values("created_at")[:1]),
        last_tries=Subquery(newest.values("attempts")[:1]),
    )
    return render(request, "runs/notify/channels.html", {"channels": listed, "kinds": KINDS})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def channel_new(request: AuthenticatedRequest) -> HttpResponse:
    places = access.places_to_manage(request.user)
    asked = request.POST if request.method == "POST" else request.GET
    access.require_place(request.user, asked.get("place", ""))
    kind = asked.get("kind", "")
    if kind not in FORMS:
        return render(request, "runs/notify/channel_kind.html", {"kinds": KINDS})
    initial = {"place": request.GET.get("place", "")}
    form = FORMS[kind](request.POST if request.method == "POST" else None, places=places, initial=initial)
    context = {"form": form, "kind": ChannelKind(kind), "no_mail": _no_mail(kind)}
    if not form.is_valid():
        return render(request, "runs/notify/channel_new.html", context)
    try:
        address = form.new_address()
        assert address is not None
        channel = create_channel(
            form.place_chosen, address, form.wants, actor=request.user, now=timezone.now()
        )
    except InvalidChannel as error:
        form.add_error(None, error.message)
        return render(request, "runs/notify/channel_new.html", context)
    if isinstance(address, WebhookAddress):
        return _secret_once(request, channel, address.secrets[0].secret, first=True)
    messages.success(request, "The channel is made. Send a test to see that it arrives.")
    return redirect("runs:channel", channel.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def channel(request: AuthenticatedRequest, channel_id: int) -> HttpResponse:
    found = access.channel_to_manage(request.user, channel_id)
    address = _address(found)
    form = FORMS[found.kind](
        request.POST if request.method == "POST" else None, places={}, channel=found, address=address
    )
    if not form.is_valid():
        return _page(request, found, form, readable=address is not None)
    try:
        update_channel(
            found,
            form.wants,
            address=form.new_address(),
            version=form.cleaned_data["version"],
            actor=request.user,
        )
    except EditedMeanwhile:
        found.refresh_from_db()
        form.add_error(None, "Somebody else has changed the channel since you opened it. Nothing was saved.")
        return _page(request, found, form, readable=address is not None, status=409)
    messages.success(request, "Saved.")
    return redirect("runs:channel", found.pk)


@never_cache
@require_POST
def channel_test(request: AuthenticatedRequest, channel_id: int) -> HttpResponse:
    found = access.channel_to_manage(request.user, channel_id)
    try:
        row = try_out(found, now=timezone.now())
    except InvalidChannel as error:
        messages.warning(request, error.message)
        return redirect("runs:channel", found.pk)
    if row.state == NotificationState.SENT:
        messages.success(request, f"“{row.said}” was sent. {row.outcome}")
    else:
        messages.error(request, f"“{row.said}” was not taken. {row.outcome}")
    return redirect("runs:channel", found.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def channel_rotate(request: AuthenticatedRequest, channel_id: int) -> HttpResponse:
    found = access.channel_to_manage(request.user, channel_id)
    if found.kind != ChannelKind.WEBHOOK:
        raise Http404("Only webhooks are signed.")
    if request.method != "POST":
        return render(request, "runs/notify/channel_rotate.html", {"channel": found, "grace": GRACE})
    try:
        new = rotate_secret(found, version=found.version, actor=request.user, now=timezone.now())
    except (EditedMeanwhile, Unreadable) as error:
        messages.warning(request, error.message)
        return redirect("runs:channel", found.pk)
    return _secret_once(request, found, new.secret, first=False)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def channel_delete(request: AuthenticatedRequest, channel_id: int) -> HttpResponse:
    found = access.channel_to_manage(request.user, channel_id)
    if request.method != "POST":
        return render(request, "runs/notify/channel_delete.html", {"channel": found})
    remove_channel(found, actor=request.user, now=timezone.now())
    messages.success(request, "The channel is removed; what was waiting for it is not sent.")
    return redirect("runs:channels")


def _page(
    request: AuthenticatedRequest,
    found: Channel,
    form: ChannelForm,
    *,
    readable: bool,
    status: int = 200,
) -> HttpResponse:
    deliveries = Paginator(found.notifications.order_by("-id"), DELIVERIES_PER_PAGE)
    context = {
        "channel": found,
        "form": form,
        "readable": readable,
        "no_mail": _no_mail(found.kind),
        "page": deliveries.get_page(request.GET.get("page")),
        "now": timezone.now(),
    }
    return render(request, "runs/notify/channel.html", context, status=status)


def _secret_once(request: AuthenticatedRequest, found: Channel, secret: str, *, first: bool) -> HttpResponse:
    context = {"channel": found, "secret": secret, "first": first, "grace": GRACE}
    return render(request, "runs/notify/channel_secret.html", context)


def _address(found: Channel) -> Address | None:
    """Return where it leads; None where that can't be read any more, and has to be entered again."""
    try:
        return opened(found.secret)
    except Unreadable:
        return None


def _no_mail(kind: str) -> bool:
    return kind == ChannelKind.MAIL and not is_configured()
