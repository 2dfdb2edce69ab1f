"""Messages by mail, over the installation's own server."""

from __future__ import annotations

from smtplib import SMTPException, SMTPRecipientsRefused

from django.conf import settings
from django.core.mail import EmailMessage

from guardops.tenants.mail import is_configured
from runs.notify.addresses import MailAddress
from runs.notify.messages import Message, text_of, title_of

from .failing import NotTaken


def send(address: MailAddress, message: Message) -> str:
    """Send a mail to everybody on the list and return that; raises NotTaken."""
    if not is_configured():
        raise NotTaken("No mail server is set up (GUARDOPS_EMAIL_URL).")
    mail = EmailMessage(title_of(message), text_of(message), to=list(address.to), headers=_headers(message))
    try:
        mail.send()
    except SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        raise NotTaken(f"The mail server refused the recipients ({', '.join(map(str, codes))}).") from None
    except SMTPException as error:
        code = getattr(error, "smtp_code", None)
        raise NotTaken("The mail server did not take it" + (f" ({code})." if code else ".")) from None
    except OSError:
        raise NotTaken("The mail server does not answer.") from None
    except ValueError:  # an address that no header can hold
        raise NotTaken("One of the addresses is none.", final=True) from None
    return "The mail server took it."


def _headers(message: Message) -> dict[str, str]:
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip("> ") or "localhost"
    headers = {"Message-ID": f"<{message.id}@{domain}>", "Auto-Submitted": "auto-generated"}
    # Mail programs show what is told of one incident as one conversation.
    if len(message.items) == 1:
        headers["References"] = f"<incident-{message.items[0].id}@{domain}>"
    return headers
