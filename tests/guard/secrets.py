"""Thirty secrets of different kinds, none of them real, for what must never leave an agent's process."""

from __future__ import annotations

from typing import Any, NamedTuple


class Seeded(NamedTuple):
    """One secret: a text that holds it, the parts that must not be seen, and a field that may hold it."""

    kind: str
    text: str
    parts: tuple[str, ...]
    field: dict[str, Any]


def _by_look(kind: str, secret: str, text: str = "{}") -> Seeded:
    """Return a secret that is known by its look, wherever it stands."""
    return Seeded(kind, text.format(secret), (secret,), {"value": text.format(secret)})


def _by_name(kind: str, secret: str, text: str, **field: Any) -> Seeded:
    """Return a secret that is known by the name beside it."""
    return Seeded(kind, text.format(secret), (secret,), field)


_PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDseeded"
_PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{_PEM_BODY}\n-----END RSA PRIVATE KEY-----"
_JWT_BODY = "eyJzdWIiOiIxMjM0NSIsIm5hbWUiOiJzZWVkZWQifQ"
_JWT = f"eyJhbGciOiJIUzI1NiJ9.{_JWT_BODY}.c2VlZGVkLXNpZ25hdHVyZQ"

SECRETS = (
    _by_look("bearer", "seeded.Bearer-01", "Bearer {}"),
    _by_look("aws key", "AKIASEEDED02EXAMPLE7"),
    _by_look("openai", "sk-proj-seeded03seeded03seeded"),
    _by_look("stripe", "sk_live_seeded04seeded04"),
    _by_look("github", "ghp_seeded05SEEDED05seeded05seeded05seed"),
    _by_look("github fine", "github_pat_11SEEDED06_seeded06seeded06seeded06"),
    _by_look("gitlab", "glpat-seeded07seeded07se"),
    _by_look("slack", "xoxb-1234567890-seeded08seeded08"),
    _by_look("slack hook", "T00SEEDED/B0000009/seeded09seeded09", "https://hooks.slack.com/services/{}"),
    _by_look("google", "AIzaSyseeded10SEEDED10seeded10SEEDED10s"),
    Seeded("jwt", _JWT, (_JWT_BODY,), {"value": _JWT}),
    Seeded("private key", _PEM, (_PEM_BODY,), {"value": _PEM}),
    _by_look("our own", "go_0123456789ab_" + "5eeded13" * 8),
    _by_look("userinfo", "agent:seeded-14-pw", "https://{}@db.example/path"),
    _by_look("postgres", "app:seeded-15-pw", "postgresql://{}@10.0.0.1:5432/app"),
    _by_look("redis", ":seeded-16-pw", "redis://{}@cache.example:6379/0"),
    _by_look("query token", "seeded-17-q", "https://a.example/x?access_token={}&page=2"),
    _by_look("query key", "seeded-18-q", "https://a.example/x?key={}"),
    _by_look("signed url", "seeded-19-sig", "https://s.example/o?X-Amz-Signature={}&X-Amz-Date=1"),
    _by_look("sas", "seeded%2F20%3D", "https://b.example/c?sv=1&sig={}"),
    _by_name("field", "seeded-21-pw", "password: {}", password="seeded-21-pw"),
    _by_name("camel case", "seeded-22-key", "apiKey={}", config={"clientApiKey": "seeded-22-key"}),
    _by_name(
        "header list",
        "seeded-23-auth",
        "Authorization: {}",
        headers=[["Accept", "x"], ["Authorization", "seeded-23-auth"]],
    ),
    _by_name(
        "header objects",
        "seeded-24-key",
        "X-Api-Key: {}",
        headers=[{"name": "X-Api-Key", "value": "seeded-24-key"}],
    ),
    _by_look("ado", "seeded-25-pw", "Server=db;User Id=sa;Password={};Encrypt=yes"),
    _by_look("azure", "seeded26+seeded26/seeded==", "AccountName=a;AccountKey={};EndpointSuffix=x"),
    _by_name(
        "cookie", "seeded-27-session", "Cookie: theme=dark; sid={}", cookies={"sid": "seeded-27-session"}
    ),
    _by_look("basic", "YWdlbnQ6c2VlZGVkLTI4LXB3", "Basic {}"),
    _by_look("random", "q9Zr4seeded29Xw2Lk8vBn5Tc1Yh7Jd3Fg6"),
    _by_look("environment", "seeded-30-env", "AWS_SECRET_ACCESS_KEY={}"),
    _by_look("option", "seeded-31-opt", "login --password {}"),
    _by_look("user option", "agent:seeded-32-pw", "curl -u {} https://a.example/"),
    _by_look("hex", "9f8a7c6d5e4b3a291807f6e5d4c3b233"),
)
