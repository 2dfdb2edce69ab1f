"""What a model call takes, by one stated model: each call sends the transcript so far, so cost grows with
its square.

Token counts are estimates (four characters a token), cost is in USD at $2.50 and $10.00 a million tokens
read and written, times are in seconds: 0.6, plus one for every 8,000 tokens read and one for every 60
written.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

CHARACTERS_A_TOKEN = 4
INSTRUCTIONS = 1_800
"""Tokens of the instructions and the tools' descriptions, sent with every call."""
WRITTEN = 160
"""Tokens the model writes in a turn besides the arguments of its tool calls."""
INPUT_MICRO_USD = Decimal("2.5")
OUTPUT_MICRO_USD = Decimal(10)
TURN_S = 0.6
READ_A_SECOND = 8_000
WRITTEN_A_SECOND = 60
_MICRO = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one model call took."""

    tokens_in: int
    tokens_out: int
    cost: Decimal
    seconds: float


@dataclass(frozen=True, slots=True)
class Rates:
    """How many times the model's figures a run really took, where its totals are known."""

    tokens_in: float = 1.0
    tokens_out: float = 1.0
    seconds: float = 1.0
    cost: Decimal = Decimal(1)

    def real(self, modelled: Usage) -> Usage:
        """Return what a call took that the model says took ``modelled``."""
        priced = usage(
            round(modelled.tokens_in * self.tokens_in), round(modelled.tokens_out * self.tokens_out)
        )
        return Usage(
            tokens_in=priced.tokens_in,
            tokens_out=priced.tokens_out,
            cost=micro(priced.cost * self.cost),
            seconds=priced.seconds * self.seconds,
        )


AS_MODELLED = Rates()


def usage(tokens_in: int, tokens_out: int) -> Usage:
    """Return what a call that reads and writes so many tokens takes."""
    return Usage(
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=micro((tokens_in * INPUT_MICRO_USD + tokens_out * OUTPUT_MICRO_USD) / 1_000_000),
        seconds=TURN_S + tokens_in / READ_A_SECOND + tokens_out / WRITTEN_A_SECOND,
    )


def micro(usd: Decimal) -> Decimal:
    """Return ``usd`` at six places, as money travels on the wire."""
    return usd.quantize(_MICRO, ROUND_HALF_EVEN)


def tokens(characters: int) -> int:
    """Return about how many tokens a text of so many characters makes."""
    return -(-characters // CHARACTERS_A_TOKEN)


class Transcript:
    """What the model reads at every call: it only grows."""

    def __init__(self) -> None:
        self.tokens = INSTRUCTIONS

    def turn(self, argument_characters: int) -> Usage:
        """Return what the next model call takes, when it writes tool arguments of so many characters."""
        written = WRITTEN + tokens(argument_characters)
        taken = usage(self.tokens, written)
        self.tokens += written
        return taken

    def read(self, characters: int) -> None:
        """Add a tool's result."""
        self.tokens += tokens(characters)
