"""The plants of the grid and what one hour of dispatch does and costs. Pure arithmetic; knows no agent.

====================  ==================================================================================
steam unit            60 to 220 MW, cheap (22 per MWh), moves at most 12 MW from one hour to the next
peaker                0 to 200 MW, free to move, dear (95 per MWh)
battery               240 MWh, 60 MW either way, 95 % efficient in each direction, half full at midnight
unserved demand       400 per MWh
surplus               curtailed, nothing paid; what was burnt for it is paid all the same
stored energy at end  valued at steam's price against what the battery held at midnight
====================  ==================================================================================

Plants are set before the hour's demand, wind and sun are known.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollgym.env_bundle.environments.gridsim.day import Hour

STEAM_MIN_MW, STEAM_MAX_MW, STEAM_RAMP_MW, STEAM_COST = 60.0, 220.0, 12.0, 22.0
PEAKER_MAX_MW, PEAKER_COST = 200.0, 95.0
BATTERY_MWH, BATTERY_MW, BATTERY_EFFICIENCY = 240.0, 60.0, 0.95
UNSERVED_COST = 400.0
START_BATTERY_MWH = BATTERY_MWH / 2


@dataclass(frozen=True, slots=True)
class Plants:
    """What the plants carry from one hour to the next."""

    steam_mw: float
    battery_mwh: float = START_BATTERY_MWH

    @property
    def steam_range_mw(self) -> tuple[float, float]:
        """What the steam unit can reach in the coming hour."""
        lowest = max(STEAM_MIN_MW, self.steam_mw - STEAM_RAMP_MW)
        return round(lowest, 1), round(min(STEAM_MAX_MW, self.steam_mw + STEAM_RAMP_MW), 1)

    @property
    def battery_range_mw(self) -> tuple[float, float]:
        """What the battery can do in the coming hour: below zero it charges."""
        charge = min(BATTERY_MW, (BATTERY_MWH - self.battery_mwh) / BATTERY_EFFICIENCY)
        discharge = min(BATTERY_MW, self.battery_mwh * BATTERY_EFFICIENCY)
        return round(-charge, 1), round(discharge, 1)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Set points for one hour, MW; the battery discharges above zero and charges below."""

    steam_mw: float
    peaker_mw: float
    battery_mw: float

    def feasible(self, plants: Plants) -> Dispatch:
        """The nearest set points that the plants can reach."""
        return Dispatch(
            steam_mw=_within(self.steam_mw, plants.steam_range_mw),
            peaker_mw=_within(self.peaker_mw, (0.0, PEAKER_MAX_MW)),
            battery_mw=_within(self.battery_mw, plants.battery_range_mw),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one hour brought."""

    dispatch: Dispatch
    actual: Hour
    unserved_mwh: float
    curtailed_mwh: float
    cost: float


def run_hour(plants: Plants, dispatch: Dispatch, actual: Hour) -> tuple[Plants, Outcome]:
    """Carry a feasible `dispatch` out against what demand, wind and sun turned out to be."""
    balance = dispatch.steam_mw + dispatch.peaker_mw + dispatch.battery_mw - actual.net_mw
    unserved, curtailed = round(max(0.0, -balance), 1), round(max(0.0, balance), 1)
    cost = STEAM_COST * dispatch.steam_mw + PEAKER_COST * dispatch.peaker_mw + UNSERVED_COST * unserved
    after = Plants(steam_mw=dispatch.steam_mw, battery_mwh=_battery_after(plants.battery_mwh, dispatch.battery_mw))
    return after, Outcome(dispatch, actual, unserved, curtailed, round(cost, 1))


def stored_energy_credit(battery_mwh: float) -> float:
    """What the energy in the battery at the end of the day is worth against the beginning; may be negative."""
    return round(STEAM_COST * (battery_mwh - START_BATTERY_MWH), 1)


def _battery_after(battery_mwh: float, battery_mw: float) -> float:
    drawn = battery_mw / BATTERY_EFFICIENCY if battery_mw > 0 else battery_mw * BATTERY_EFFICIENCY
    return round(min(BATTERY_MWH, max(0.0, battery_mwh - drawn)), 1)


def _within(value: float, bounds: tuple[float, float]) -> float:
    return round(min(bounds[1], max(bounds[0], value)), 1)
