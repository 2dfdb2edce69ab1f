"""How sure a share is that was counted from few."""

from __future__ import annotations

import math

Z_95 = 1.96
Z_99 = 2.58


def wilson(part: int, whole: int, z: float = Z_95) -> tuple[float, float]:
    """Return Wilson's interval of ``part`` of ``whole``, as shares from 0 to 1; (0, 1) of nothing."""
    if whole <= 0:
        return 0.0, 1.0
    share, slack = part / whole, z * z / whole
    middle = share + slack / 2
    spread = z * math.sqrt(share * (1 - share) / whole + slack / (4 * whole))
    return max(0.0, (middle - spread) / (1 + slack)), min(1.0, (middle + spread) / (1 + slack))
