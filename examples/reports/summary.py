"""The reports of this folder in one picture and two tables: what `python -m staticflow compare`
found, put into the pages that show it.

``python examples/reports/summary.py`` writes the part between the marks of README.md and of
docs/static-and-dynamic.md, and the picture, from the JSON files beside it. No number on these pages
is written by hand; what was not measured is shown as not measured.
"""

import argparse
import json
from html import escape
from pathlib import Path

from staticflow.measure.statistics import Spread, differ
from staticflow.measure.units import bytes_in_words, ratio_in_words, seconds_in_words

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PICTURE = ROOT / "docs" / "pictures" / "modes.svg"
NOT_MEASURED = "not measured"
NOTHING = "No report is in `examples/reports` yet."
END = "<!-- end of reports -->"


def load_reports(folder=FOLDER):
    """The records of both modes, the one in which compiling gains least first."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    both = [r for r in found if r["static"] and r["static"]["step"] and r["eager"]["step"]]
    return sorted(both, key=gain)


def gain(report):
    """How many times as long the eager step takes."""
    return report["eager"]["step"]["median"] / report["static"]["step"]["median"]


# -- cells -----------------------------------------------------------------------------------------


def title_of(report):
    """What a reader knows the model by: the name of its file, or its own where it has none."""
    file = Path(report["model"]["source"].partition(":")[0])
    return file.stem.replace("_", " ") if file.suffix == ".py" else report["model"]["name"]


def model_of(report, up=""):
    """The title, with a link to the file where that is one of this checkout."""
    file = report["model"]["source"].partition(":")[0]
    title = title_of(report)
    return f"[{title}]({up}{file})" if (ROOT / file).is_file() else title


def time_of(report, mode):
    return seconds_in_words(report[mode]["step"]["median"])


def interval_of(report, mode):
    step = report[mode]["step"]
    return (
        f"{time_of(report, mode)} ({seconds_in_words(step['low'])} to "
        f"{seconds_in_words(step['high'])})"
    )


def winner_of(report):
    """Which mode has the faster step, and how many times."""
    if not differ(*(Spread(**report[mode]["step"]) for mode in ("eager", "static"))):
        return "no difference beyond noise"
    ratio = gain(report)
    mode, times = ("static", ratio) if ratio > 1 else ("eager", 1 / ratio)
    return f"{mode}, {ratio_in_words(times)}"


def break_even_of(report, start):
    found = report["break_even"].get(start)
    if found is None:
        return NOT_MEASURED
    return "never" if found["step"] is None else f"{found['step']:,}"


def break_even_interval(report, start):
    found = report["break_even"].get(start)
    if found is None or found["step"] is None:
        return break_even_of(report, start)
    high = "never" if found["high"] is None else f"{found['high']:,}"
    return f"{found['step']:,} ({found['low']:,} to {high})"


def start_of(report, mode, start):
    """The seconds of a process until it has taken its first steps."""
    phases = report[mode][start]
    return seconds_in_words(sum(phases.values())) if phases else NOT_MEASURED


def memory_of(report, mode):
    memory = report["memory"].get(mode)
    return NOT_MEASURED if memory is None else bytes_in_words(memory["measured"])


def difference_of(report, what):
    difference = report["agreement"][what]["static_eager"]
    return NOT_MEASURED if difference is None else f"{difference:.0e}" if difference else "0"


def kernels_of(report):
    roofline = report["static"]["roofline"]
    return NOT_MEASURED if roofline is None else f"{roofline['kernels']:,}"


def outside_of(report, mode):
    roofline = report[mode]["roofline"]
    share = roofline and roofline["outside_kernels"]
    return NOT_MEASURED if share is None else f"{share:.0%}"


def verdict_of(report):
    return report["agreement"]["verdict"]


# -- tables ----------------------------------------------------------------------------------------

SHORT = {
    "a training step of": model_of,
    "eager": lambda r: time_of(r, "eager"),
    "static": lambda r: time_of(r, "static"),
    "faster": winner_of,
    "break-even at step": lambda r: break_even_of(r, "cold"),
    "with code on disk": lambda r: break_even_of(r, "warm"),
    "memory, eager": lambda r: memory_of(r, "eager"),
    "static ": lambda r: memory_of(r, "static"),
    "gradients differ by": lambda r: difference_of(r, "gradients"),
}

LONG = {
    "a training step of": lambda r: model_of(r, "../"),
    "eager (95 %)": lambda r: interval_of(r, "eager"),
    "static (95 %)": lambda r: interval_of(r, "static"),
    "faster": winner_of,
    "break-even, first process (95 %)": lambda r: break_even_interval(r, "cold"),
    "later process (95 %)": lambda r: break_even_interval(r, "warm"),
    "start, eager": lambda r: start_of(r, "eager", "cold"),
    "start, static": lambda r: start_of(r, "static", "cold"),
    "kernels, static": kernels_of,
    "share of a step outside them": lambda r: outside_of(r, "static"),
    "memory, eager": lambda r: memory_of(r, "eager"),
    "memory, static": lambda r: memory_of(r, "static"),
    "gradients differ by": lambda r: difference_of(r, "gradients"),
    "losses differ by": lambda r: difference_of(r, "losses"),
    "verdict": verdict_of,
}


def table(columns, reports):
    """A Markdown table with a row for each report."""
    rows = [list(columns), ["---"] * len(columns)]
    rows += [[cell(report) for cell in columns.values()] for report in reports]
    return "\n".join(f"| {' | '.join(name.strip() for name in row)} |" for row in rows)


def sideways(columns, reports):
    """The same with a column for each report, for many cells."""
    rows = [[name, *(cell(r) for r in reports)] for name, cell in columns.items()]
    rows.insert(1, ["---"] * (len(reports) + 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def machine_of(reports):
    """Where they were measured, once for all that share it."""
    told = []
    for report in reports:
        machine, versions = report["machine"], report["machine"]["versions"]
        packages = ", ".join(f"{name} {versions[name]}" for name in ("python", "numpy", "llvmlite"))
        told.append(
            f"Measured on {machine['processor']}, {machine['threads']} threads; {packages}."
        )
    return "\n".join(dict.fromkeys(told))


# -- the picture -----------------------------------------------------------------------------------

WIDTH, ROW, LEFT, RIGHT, TOP = 780, 44, 170, 200, 56
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .paper { fill: #ffffff }
  .small { font-size: 12px; fill: #59636e }
  .line { stroke: #d1d9e0 } .span { stroke: #8c959f; stroke-width: 3 }
  .eager { fill: #bc4c00 } .static { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .paper { fill: #0d1117 } .small { fill: #9198a1 }
    .line { stroke: #3d444d } .span { stroke: #656c76 }
    .eager { fill: #f0883e } .static { fill: #58a6ff }
  }
"""


def picture(reports):
    """The time of a step in both modes, a row for each report, along a logarithmic axis."""
    from math import ceil, floor, log10

    times = [r[mode]["step"]["median"] for r in reports for mode in ("eager", "static")]
    first, last = floor(log10(min(times))), ceil(log10(max(times)))
    height = TOP + ROW * len(reports) + 34

    def at(seconds):
        share = (log10(seconds) - first) / max(1, last - first)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    parts = [
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text x="{LEFT}" y="24"><tspan class="eager">●</tspan> eager  '
        f'<tspan class="static">■</tspan> static: time of a training step</text>',
    ]
    for power in range(first, last + 1):
        x = at(10**power)
        parts.append(f'<line class="line" x1="{x}" x2="{x}" y1="{TOP - 16}" y2="{height - 28}"/>')
        parts.append(
            f'<text class="small" x="{x}" y="{height - 10}" text-anchor="middle">'
            f"{axis_label(10.0**power)}</text>"
        )
    for i, report in enumerate(reports):
        y = TOP + ROW * i + 8
        eager, static = (at(report[mode]["step"]["median"]) for mode in ("eager", "static"))
        title = escape(title_of(report))
        parts += [
            f'<text x="{LEFT - 16}" y="{y + 5}" text-anchor="end">{title}</text>',
            f'<line class="span" x1="{static}" x2="{eager}" y1="{y}" y2="{y}"/>',
            f'<circle class="eager" cx="{eager}" cy="{y}" r="7"/>',
            f'<rect class="static" x="{static - 6.5}" y="{y - 6.5}" width="13" height="13"/>',
            f'<text x="{WIDTH - RIGHT + 16}" y="{y - 1}">{winner_of(report)}</text>',
            f'<text class="small" x="{WIDTH - RIGHT + 16}" y="{y + 14}">{pays_from(report)}</text>',
        ]
    lines = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(described(reports))}">\n<style>{STYLE}</style>\n{lines}\n</svg>\n'
    )


def axis_label(seconds):
    return seconds_in_words(seconds).replace(".00", "").replace("0.0 ", "0 ")


def pays_from(report):
    step = break_even_of(report, "cold")
    return {"never": "never breaks even", NOT_MEASURED: ""}.get(step, f"breaks even at step {step}")


def described(reports):
    """The picture in words."""
    told = (f"{title_of(r)}: {winner_of(r)}" for r in reports)
    return f"The time of a training step in both modes. {'; '.join(told)}."


# -- the pages -------------------------------------------------------------------------------------


def blocks(reports):
    """What stands between the marks: by page and name."""
    machine = machine_of(reports)
    image = f"![{described(reports)}](docs/pictures/modes.svg)"
    return {
        ("README.md", "answer"): f"{image}\n\n{table(SHORT, reports)}\n\n{machine}",
        ("docs/static-and-dynamic.md", "modes"): f"{sideways(LONG, reports)}\n\n{machine}",
    }


def render(reports):
    """The files that show the reports, as they should be, by path."""
    files = {PICTURE: picture(reports)} if reports else {}
    for (page, name), block in blocks(reports).items():
        text = (ROOT / page).read_text()
        mark = f"<!-- reports: {name} -->"
        before, _, rest = text.partition(mark)
        _, end, after = rest.partition(END)
        assert end, f"{page} must have the marks {mark} and {END}"
        shown = block if reports else NOTHING
        files[ROOT / page] = f"{before}{mark}\n{shown}\n{END}{after}"
    return files


def main():
    """Write the pages and the picture."""
    for path, text in render(load_reports()).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
