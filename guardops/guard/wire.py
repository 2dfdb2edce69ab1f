"""Every event that guards send."""

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import RunEnded, RunHeartbeat, RunStarted, WorkRefused

Event = RunEnded | RunStarted | RunHeartbeat | WorkRefused | CheckpointOpened
