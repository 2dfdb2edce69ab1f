"""The part of the OpenAPI document about checkpoints: how guards get decisions, and take them up. Pure."""

from __future__ import annotations

from .openapi_parts import REF, Piece, answer, parameter, problems, wait

_CHECKPOINT = parameter(
    "checkpoint_id",
    "path",
    "The checkpoint's id, as its event named it.",
    {"type": "string", "format": "uuid"},
    "0198c0de-7a11-7000-8000-00000c4ec701",
) | {"required": True}
_TENANT = parameter(
    "GuardOps-Tenant",
    "header",
    "The tenant; needed where the key covers several.",
    {"type": "string"},
    "acme",
)
_REFUSED = ["unauthenticated", "key_revoked", "key_expired", "missing_scope", "unknown_tenant"]
_FAILED = ["internal", "unavailable"]
_BAD_BODY = [
    *("not_json", "bad_encoding", "body_timeout", "body_too_large"),
    *("unsupported_media_type", "unsupported_encoding"),
]


def get_checkpoint() -> Piece:
    return {
        "operationId": "getCheckpoint",
        "summary": "Ask what became of a checkpoint, or wait for it.",
        "description": (
            "Needs the scope checkpoints. With wait, the answer comes as soon as there is a decision that can"
            " no longer be undone, or the checkpoint has expired. A guard proves the decision: it is signed"
            " with one of the tenant's secrets in its bundle, over the canonical form of all other fields,"
            " and names the checkpoint and the artifact as they were handed over."
        ),
        "parameters": [_CHECKPOINT, wait(), _TENANT],
        "responses": {
            "200": answer("Where it stands, with its decision.", "application/json", "CheckpointReply"),
            **problems(["bad_request", *_REFUSED, "unknown_checkpoint", *_FAILED]),
        },
    }


def post_consume() -> Piece:
    return {
        "operationId": "consumeDecision",
        "summary": "Take a decision up, as the one run that will carry it out.",
        "description": (
            "Needs the scope checkpoints. attempt_id is the id that the next attempt will have. Whoever asks"
            " first has the grant, and gets the same one whenever it asks again; nobody else does."
        ),
        "parameters": [_CHECKPOINT, _TENANT],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": REF.format(name="Consume")},
                    "example": {
                        "decision_id": "0198c0de-7a11-7000-8000-0000dec15107",
                        "attempt_id": "0198c0de-7a11-7000-8000-00000a77e397",
                        "artifact_digest": f"sha256:{'0' * 64}",
                    },
                }
            },
        },
        "responses": {
            "200": answer("The grant.", "application/json", "Grant"),
            **problems(
                [
                    *_BAD_BODY,
                    "bad_request",
                    *_REFUSED,
                    *("unknown_checkpoint", "already_consumed", "wrong_artifact", "not_delivered"),
                    *("decision_expired", *_FAILED, "overloaded"),
                ]
            ),
        },
    }
