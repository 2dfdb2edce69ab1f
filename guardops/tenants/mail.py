"""Mail to people, where the installation has a mail server. No page waits for one longer than it says."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from smtplib import SMTPException
from threading import BoundedSemaphore

import structlog
from django.conf import settings
from django.core.mail import EmailMessage

from guardops.shown import visible_text

WAIT_S = 8.0  # how long a page may wait to say whether a mail went out
_MOST_PENDING = 100

_log = structlog.get_logger(__name__)
_senders = ThreadPoolExecutor(2, thread_name_prefix="mail")
_places = BoundedSemaphore(_MOST_PENDING)


def is_configured() -> bool:
    return bool(settings.EMAIL_HOST)


def send_soon(*, to: str, subject: str, text: str) -> Future[bool] | None:
    """Hand a mail to a thread and return what will say whether it went out; None where too many wait already.

    Nothing in it may depend on an open transaction. A process that is killed loses what waits, so that a mail
    is never the only way to something.
    """
    if not _places.acquire(blocking=False):
        _log.warning("mail refused", reason="too many wait already")
        return None
    # A header has one line, and a name that people chose shows nothing unseen.
    mail = EmailMessage(" ".join(visible_text(subject).split()), text, to=[to])
    return _senders.submit(_send, mail)


def send(*, to: str, subject: str, text: str) -> bool:
    """Send a mail and say whether the server took it within ``WAIT_S`` seconds."""
    sending = send_soon(to=to, subject=subject, text=text)
    try:
        return sending is not None and sending.result(timeout=WAIT_S)
    except TimeoutError:
        return False


def _send(mail: EmailMessage) -> bool:
    try:
        return bool(mail.send())
    except (
        OSError,
        SMTPException,
        ValueError,
    ) as error:  # a ValueError is an address that no header can hold
        _log.warning("mail failed", error=type(error).__name__)
        return False
    finally:
        _places.release()
