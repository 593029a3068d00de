"""Charts as Vega-Lite specifications, drawn to SVG without a browser.

Text and axes use the page's own colour (`currentColor`), so that one drawing serves light pages,
dark pages and print.
"""

from __future__ import annotations

import math
import re
from typing import Any

from kernelwright.core.ground import Ground
from kernelwright.core.verdict import WIN_THRESHOLD, Accepted, Against, block_log_ratios
from kernelwright.report.facts import Facts, Row, Winner

Spec = dict[str, Any]
_GREEN, _BLUE, _RED, _GREY, _AMBER = "#2e9e5b", "#3b82c4", "#d1495b", "#8a8f98", "#c98a1b"
_STATES = {"win": _GREEN, "right": _BLUE, "rejected": _RED, "inconclusive": _GREY}
_WIDTH, _HEIGHT = 520, 230
_INK = {f"{part}Color": "currentColor" for part in ("label", "title")}
_CONFIG = {
    "background": None,
    "padding": {"left": 28, "right": 14, "top": 4, "bottom": 4},  # viewers' fonts may be wider
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_INK,
        "domainColor": _GREY,
        "tickColor": _GREY,
        "gridColor": _GREY,
        "gridOpacity": 0.25,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
    },
    "legend": {**_INK, "labelFontSize": 11, "orient": "top", "title": None},
    "text": {"fill": "currentColor", "fontSize": 11},
}
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}


def draw(name: str, spec: Spec) -> str:
    """The SVG text of a specification; `name` keeps its ids apart from other drawings' ids."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg({"config": _CONFIG, **spec})
    return re.sub(r"\b(clip|gradient_)(\d+)\b", rf"{name}-\1\2", svg)


def charts(facts: Facts) -> dict[str, Spec]:
    """The charts that there is data for, by name, in reading order."""
    specs: dict[str, Spec] = {}
    timed = [row for row in facts.rows if row.speedup is not None]
    if timed:
        specs["progress"] = over_time(facts.rows)
    if facts.ground is not None:
        specs["roofline"] = roofline(facts.ground, facts.winner)
    if facts.winner and facts.winner.against and facts.winner.against[0].samples_ns:
        specs["pairs"] = pair_times(facts.winner.against[0])
        specs["ratios"] = block_ratios(facts.winner.against[0])
    checked = _checked(facts.winner)
    if checked:
        specs["errors"] = errors(checked)
    return specs


def over_time(rows: tuple[Row, ...]) -> Spec:
    """Speed-up of each Candidate over the seconds spent judging, with the best win so far."""
    points, best = [], []
    for row in rows:
        if row.speedup is not None:
            low, mid, high = row.speedup
            points.append(
                {"s": row.ended_s, "low": low, "mid": mid, "high": high, "state": row.state}
            )
            if row.state == "win" and (not best or low > best[-1]["low"]):
                best.append({"s": row.ended_s, "low": low})
    if best:
        best.append({"s": rows[-1].ended_s, "low": best[-1]["low"]})
    bottom = min(point["low"] for point in points) * 0.9
    no = [{"s": r.ended_s, "mid": bottom, "state": r.state} for r in rows if r.speedup is None]
    x = _field("s", "Q", "seconds of judging", scale={"zero": True})
    y = _field("mid", "Q", "speed-up over the best baseline", scale={"type": "log", "nice": False})
    colour = _colour({k: v for k, v in _STATES.items() if k in {r.state for r in rows}}, "state")
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "layer": [
            *_level(1.0, "the best baseline"),
            *_level(WIN_THRESHOLD, ""),
            {
                "data": {"values": best},
                "mark": {"type": "line", "interpolate": "step-after", "color": _GREEN},
                "encoding": {"x": x, "y": _field("low", "Q", None)},
            },
            {
                "data": {"values": points},
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                "encoding": {
                    "x": x,
                    "y": _field("low", "Q", None),
                    "y2": {"field": "high"},
                    "color": colour,
                },
            },
            _dots(points, x, y, colour, shape="circle"),
            _dots(no, x, y, colour, shape="cross"),
        ],
    }


def roofline(ground: Ground, winner: Winner | None) -> Spec:
    """Time of each arm against the floor that bytes and flops set on this machine."""
    memory_ms = 1e3 * ground.bytes_moved / ground.bytes_per_s
    times = {arm.name: arm.wall_ns.mid for arm in ground.baselines}
    if winner is not None:  # taken beside the candidate, so under the same load
        times |= {one.baseline: one.baseline_ns.mid for one in winner.against}
    arms = [{"arm": arm, "ms": ns / 1e6, "what": "baseline"} for arm, ns in times.items()]
    if winner is not None and winner.against:
        name = f"{winner.verdict.candidate_kind} {winner.verdict.candidate}"
        arms.append(
            {"arm": name, "ms": winner.against[0].candidate_ns.mid / 1e6, "what": "candidate"}
        )
    floors = [{"ms": memory_ms, "floor": f"bytes ({ground.bytes_moved / 2**20:.3g} MiB)"}]
    if ground.flops:
        gflop = ground.flops / 1e9
        compute_ms = 1e3 * ground.flops / ground.flops_per_s
        floors.append({"ms": compute_ms, "floor": f"arithmetic ({gflop:.3g} GFLOP)"})
    y = {
        "field": "arm",
        "type": "nominal",
        "title": None,
        "sort": None,
        "axis": {"labelLimit": 220},
    }
    x = _field("ms", "Q", "median time of a call, ms", scale={"zero": True})
    return {
        "width": _WIDTH - 60,
        "height": {"step": 30},
        "layer": [
            {
                "data": {"values": arms},
                "mark": {"type": "bar", "height": 16},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": _colour({"baseline": _GREY, "candidate": _GREEN}, "what"),
                },
            },
            {
                "data": {"values": arms},
                "mark": {"type": "text", "align": "left", "dx": 4},
                "encoding": {"x": x, "y": y, "text": {"field": "ms", "format": ".3~g"}},
            },
            {
                "data": {"values": floors},
                "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 2, "color": _AMBER},
                "encoding": {"x": _field("ms", "Q", None)},
            },
            {
                "data": {"values": floors},
                "mark": {"type": "text", "align": "left", "dx": 3, "dy": -4, "baseline": "bottom"},
                "encoding": {
                    "x": _field("ms", "Q", None),
                    "y": {"value": 0},
                    "text": {"field": "floor"},
                },
            },
        ],
    }


def pair_times(against: Against) -> Spec:
    """Wall time of both arms in every pair, in the order taken."""
    points = []
    for at, (baseline, candidate) in enumerate(against.samples_ns, 1):
        points.append({"pair": at, "ms": baseline / 1e6, "arm": against.baseline})
        points.append({"pair": at, "ms": candidate / 1e6, "arm": "candidate"})
    colour = _colour({against.baseline: _GREY, "candidate": _GREEN}, "arm")
    return {
        "width": _WIDTH,
        "height": _HEIGHT - 40,
        "data": {"values": points},
        "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.75},
        "encoding": {
            "x": _field("pair", "Q", "pair, in the order taken"),
            "y": _field("ms", "Q", "wall time of a call, ms", scale={"zero": False}),
            "color": colour,
        },
    }


def block_ratios(against: Against) -> Spec:
    """Speed-up of each block of an AB and a BA pair, sorted, with the median's interval."""
    blocks = sorted(block_log_ratios(against.samples_ns))
    points = [{"block": at, "ratio": math.exp(value)} for at, value in enumerate(blocks, 1)]
    low, mid, high = against.speedup
    y = _field("ratio", "Q", f"speed-up over {against.baseline}", scale={"zero": False})
    return {
        "width": _WIDTH,
        "height": _HEIGHT - 40,
        "layer": [
            {
                "data": {"values": [{"low": low, "high": high}]},
                "mark": {"type": "rect", "color": _GREEN, "opacity": 0.18},
                "encoding": {"y": _field("low", "Q", None), "y2": {"field": "high"}},
            },
            *_level(mid, ""),
            *_level(1.0, "the baseline"),
            *_level(WIN_THRESHOLD, ""),
            {
                "data": {"values": points},
                "mark": {"type": "point", "filled": True, "size": 26, "color": _GREEN},
                "encoding": {"x": _field("block", "Q", "block of two pairs, sorted"), "y": y},
            },
        ],
    }


def errors(checked: list[dict[str, Any]]) -> Spec:
    """Largest error of each compared call over its budget, by shape and input family."""
    families = list(dict.fromkeys(one["family"] for one in checked))
    return {
        "width": _WIDTH - 60,
        "height": {"step": 30},
        "layer": [
            {
                "data": {"values": checked},
                "mark": {"type": "tick", "thickness": 2, "height": 18},
                "encoding": {
                    "x": _field("error", "Q", "error over budget (1 fails)", scale={"zero": True}),
                    "y": _rows("shape"),
                    "color": {
                        "field": "family",
                        "type": "nominal",
                        "scale": {"domain": families, "scheme": "tableau10"},
                        "legend": {"columns": 5},
                    },
                },
            },
            {
                "data": {"values": [{"limit": 1}]},
                "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 2, "color": _RED},
                "encoding": {"x": _field("limit", "Q", None)},
            },
        ],
    }


def _checked(winner: Winner | None) -> list[dict[str, Any]]:
    match winner.verdict.outcome if winner else None:
        case Accepted(correctness=correctness):
            return [
                {"shape": one.shape, "family": one.family, "error": one.error_over_budget}
                for one in correctness.checked
            ]
        case _:
            return []


def _field(name: str, kind: str, title: str | None, **more: Any) -> Spec:
    titled = {"title": title} if title is not None else {}
    return {"field": name, "type": _TYPES[kind], **titled, **more}


def _rows(name: str) -> Spec:
    axis = {"labelLimit": 220}
    return {"field": name, "type": "nominal", "title": None, "sort": None, "axis": axis}


def _colour(palette: dict[str, str], field: str) -> Spec:
    scale = {"domain": list(palette), "range": list(palette.values())}
    return {"field": field, "type": "nominal", "scale": scale}


def _dots(points: list[Spec], x: Spec, y: Spec, colour: Spec, *, shape: str) -> Spec:
    mark = {"type": "point", "filled": True, "size": 60, "shape": shape, "opacity": 1}
    return {
        "data": {"values": points},
        "mark": mark,
        "encoding": {"x": x, "y": y, "color": colour},
    }


def _level(at: float, text: str) -> list[Spec]:
    """A horizontal line at that value, with a word on it."""
    data = {"values": [{"at": at, "text": text}]}
    y = _field("at", "Q", None)
    line: Spec = {
        "data": data,
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": _GREY},
        "encoding": {"y": y},
    }
    label: Spec = {
        "data": data,
        "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -2},
        "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "text"}},
    }
    return [line, label] if text else [line]
