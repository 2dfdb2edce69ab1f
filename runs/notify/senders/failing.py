from __future__ import annotations

from guardops.tenants.errors import GuardOpsError
from runs.notify import client


class NotTaken(GuardOpsError):
    """The receiver did not take a message. ``final`` says that it never will, whatever is tried."""

    default_code = "not_taken"

    def __init__(self, message: str, *, final: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.final, self.retry_after_s = final, retry_after_s


def post(url: str, body: bytes, headers: dict[str, str]) -> str:
    """Post a JSON document and return what was answered; raises NotTaken for anything but success."""
    headers = {"Content-Type": "application/json", **headers}
    try:
        answer = client.request("POST", url, body=body, headers=headers)
    except (client.InvalidAddress, client.RefusedAddress) as error:
        raise NotTaken(error.message, final=True) from None
    except client.Unreachable as error:
        raise NotTaken(error.message) from None
    if answer.taken:
        return answer.shown
    # 410 is the receiver's word that it wants nothing any more; all else may be mended there.
    raise NotTaken(answer.shown, final=answer.status == 410, retry_after_s=answer.retry_after_s)
