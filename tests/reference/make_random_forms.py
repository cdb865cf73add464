"""Compares random forms with PyTorch, and stores what it gives for some on which both agree: ``PYTHONPATH=.:tests/arguments
python tests/reference/make_random_forms.py --seeds 5`` compares, ``--store`` writes
`random_forms.json`."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import torch
from random_forms import differs, draw, names, outcome

import staticflow as sf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1, help="forms for each function")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="what the names of functions must match")
    parser.add_argument("--to", type=Path, help="where differences are written, a line each")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    kept: list[str] = []
    count = 0
    lines = []
    for name in names():
        if not re.search(options.only, name):
            continue
        for seed in range(options.first, options.first + options.seeds):
            form = draw(name, seed)
            if form is None:
                break
            count += 1
            try:
                there, here = outcome(torch, form), outcome(sf, form)
                how = differs(here, there)
            except Exception as error:
                how, here, there = f"{type(error).__name__}: {error}", {}, {}
            if how:
                said = {
                    "form": form,
                    "how": how,
                    "here": here.get("refused"),
                    "there": there.get("refused"),
                }
                lines.append(json.dumps(said))
            elif options.store and small(there):
                kept.append(json.dumps({"form": form, "outcome": without_words(there)}))
    print(count, "forms,", len(lines), "differ")
    if options.to:
        options.to.write_text("\n".join(lines) + "\n")
    if options.store:
        path = Path(__file__).parent / "random_forms.json"
        path.write_text("[\n" + ",\n".join(kept) + "\n]\n")


def small(said: dict[str, Any]) -> bool:
    return len(json.dumps(said)) < 600


def without_words(said: dict[str, Any]) -> dict[str, Any]:
    return {"refused": ""} if "refused" in said else said


main()
