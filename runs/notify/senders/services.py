"""Chat and push services through Apprise: only those whose host is fixed, since it opens its own sockets."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.google_chat import NotifyGoogleChat
from apprise.plugins.opsgenie import NotifyOpsgenie
from apprise.plugins.pushbullet import NotifyPushBullet
from apprise.plugins.pushover import NotifyPushover
from apprise.plugins.slack import NotifySlack
from apprise.plugins.telegram import NotifyTelegram
from apprise.plugins.webexteams import NotifyWebexTeams

from runs.choices import Severity
from runs.notify.addresses import ServiceAddress
from runs.notify.client import InvalidAddress
from runs.notify.messages import Message, text_of, title_of

from .failing import NotTaken

SERVICES: dict[type[Any], str] = {
    NotifySlack: "Slack",
    NotifyDiscord: "Discord",
    NotifyTelegram: "Telegram",
    NotifyGoogleChat: "Google Chat",
    NotifyWebexTeams: "Webex",
    NotifyPushover: "Pushover",
    NotifyPushBullet: "Pushbullet",
    NotifyOpsgenie: "Opsgenie",
}
MOST_TARGETS = 5
"""Rooms or people of one address: Apprise asks for each by itself, and rests in between."""
# A query may name files, templates and other hosts; these name none.
_HARMLESS = {NotifyOpsgenie: {"region"}, NotifyGoogleChat: {"key", "token", "threadkey"}}
_TYPES = {
    Severity.CRITICAL: NotifyType.FAILURE,
    Severity.WARNING: NotifyType.WARNING,
    Severity.INFO: NotifyType.INFO,
}


def service_of(url: str) -> ServiceAddress:
    """Return the address of a service; raises InvalidAddress for what Apprise does not take or we do not."""
    plugin = _plugin(url)
    if plugin is None:
        raise InvalidAddress("This is no address of one of the services below.")
    given = {name.lower() for name, _ in parse_qsl(_query(url), keep_blank_values=True)}
    if given - _HARMLESS.get(type(plugin), set()):
        raise InvalidAddress("Leave out what follows the question mark; it is not supported.")
    if len(plugin) > MOST_TARGETS:
        raise InvalidAddress(f"At most {MOST_TARGETS} rooms or people; make another channel for the others.")
    return ServiceAddress(url, SERVICES[type(plugin)])


def send(address: ServiceAddress, message: Message) -> str:
    """Hand the message to the service and return that it was taken; raises NotTaken."""
    plugin = _plugin(address.url)
    if plugin is None:
        raise NotTaken("The service's address can no longer be read.", final=True)
    kind = (
        NotifyType.SUCCESS if message.items and all(i.over for i in message.items) else _TYPES[message.worst]
    )
    taken = plugin.notify(
        title=_unpinging(title_of(message)),
        body=_unpinging(text_of(message)),
        notify_type=kind,
        body_format=NotifyFormat.TEXT,
    )
    if not taken:
        raise NotTaken(f"{address.service} did not take it.")
    return f"{address.service} took it."


def _plugin(url: str) -> Any:
    asset = AppriseAsset(
        app_id="GuardOps", app_desc="GuardOps", app_url="", secure_logging=True, plugin_paths=[]
    )
    try:
        plugin = Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    except (ValueError, UnicodeError):
        return None
    return plugin if type(plugin) in SERVICES else None


def _query(url: str) -> str:
    try:
        return urlsplit(url).query
    except ValueError:
        return "?"


def _unpinging(text: str) -> str:
    """Return text that calls nobody: a name in a title must not wake a whole channel."""
    return text.replace("@", "＠")
