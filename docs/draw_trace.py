#!/usr/bin/env python3
"""Traces as one SVG: draw_trace.py measured.json simulated.json > trace.svg. For a closer look: Perfetto."""
import json
import sys
from xml.sax.saxutils import escape

WIDTH, LABEL, ROW, GAP = 960, 170, 26, 6
COLOURS = {"send": "#4e79a7", "recv": "#76b7b2", "reduce": "#f28e2b", "copy": "#59a14f"}


def colour(name):
    words = name.split()[0].split("_")
    for word in ("reduce", "copy", "send", "recv"):
        if word in words:
            return COLOURS[word]
    return "#bab0ac"


events = [e for path in sys.argv[1:] for e in json.load(open(path))["traceEvents"]]
processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
steps = [e for e in events if e["ph"] == "X" and " chunk " in e["name"]]  # not the slices of whole calls
begin = {pid % 2: min(e["ts"] for e in steps if e["pid"] % 2 == pid % 2) for pid in processes}
end = max(e["ts"] + e["dur"] - begin[e["pid"] % 2] for e in steps)
lanes = sorted({(e["pid"], e["tid"]) for e in steps})
height = len(lanes) * (ROW + GAP) + 40
scale = (WIDTH - LABEL - 20) / end
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">')
print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
for row, (pid, tid) in enumerate(lanes):
    y = 10 + row * (ROW + GAP)
    more = len({t for p, t in lanes if p == pid}) > 1
    print(f'<text x="8" y="{y + 17}">{escape(processes[pid])}{f", lane {tid}" if more else ""}</text>')
    for e in steps:
        if (e["pid"], e["tid"]) != (pid, tid):
            continue
        x, width = LABEL + (e["ts"] - begin[pid % 2]) * scale, max(1, e["dur"] * scale)
        print(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{colour(e["name"])}" stroke="white">'
              f'<title>{escape(e["name"])}, {e["dur"]:.2f} us</title></rect>')
        text = e["name"].replace(" chunk ", " ")
        if width > 7.5 * len(text):
            print(f'<text x="{x + 4:.1f}" y="{y + 17}" fill="white">{escape(text)}</text>')
y = height - 10
print(f'<text x="{LABEL}" y="{y}">0</text><text x="{WIDTH - 20}" y="{y}" text-anchor="end">{end:.1f} us</text>')
print("</svg>")
