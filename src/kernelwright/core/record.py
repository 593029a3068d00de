"""The base of every record that crosses a process or reaches disk, and the type of an estimate."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Frozen, closed to unknown fields, and serialised in declaration order."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Interval(NamedTuple):
    """A measured quantity: the estimate and the 95 % bounds around it. `low <= mid <= high`."""

    low: float
    mid: float
    high: float
