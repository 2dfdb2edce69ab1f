"""The door for machines; uvicorn's target is ``guardops.gate:app``."""

from .app import app

__all__ = ["app"]
