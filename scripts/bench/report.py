"""What people and tools read: the table, the JSON file, the plot."""

import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess

from measuring import bytes_text


def number(value):
    return "-" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def table(case, samples, rows):
    """The medians of all series, a line for each size; behind them, one after the other, its bars."""
    labels = list(case.series)
    width = max(12, *map(len, labels))
    lines = [f"\n{case.name}: {case.title} ({case.unit})",
             f"{'bytes':>9}" + "".join(f" {label:>{width}}" for label in labels) +
             f"   {'compared':<26} {'ratio (rounds)':>18} {'at most':>8}"]
    shown = None
    for row in rows:
        first, shown = row.bytes != shown, row.bytes
        values = [statistics.median(v) if (v := samples.get(label, {}).get(row.bytes)) else None
                  for label in labels]
        left = f"{bytes_text(row.bytes):>9}" + "".join(f" {number(v):>{width}}" for v in values)
        compared = f"{row.series} / {row.against}" if row.against else row.series
        ratio = number(row.ratio) if row.against else number(row.value)
        if row.spread:
            ratio += f" ({row.spread[0]:.2f}-{row.spread[1]:.2f})"
        lines.append(f"{left if first else ' ' * len(left)}   {compared:<26} {ratio:>18}"
                     f" {row.limit:>8.4g}  {row.verdict}")
    return "\n".join(lines)


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"date": datetime.datetime.now().isoformat(timespec="seconds"), "processor": model,
            "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load": os.getloadavg()[0]}


def headline(head):
    return f"{head['cpus']} x {head['processor']}, load {head['load']:.2f}, {head['date']}"


def write_json(path, head, results):
    """results: [(case, samples, rows, failures)]."""
    document = {**head, "cases": [
        {"name": case.name, "title": case.title, "unit": case.unit,
         "series": {label: {str(size): values for size, values in by_size.items()}
                    for label, by_size in samples.items()},
         "bars": [vars(row) for row in rows], "failures": failures}
        for case, samples, rows, failures in results]}
    with open(path, "w") as file:
        json.dump(document, file, indent=1)


def plot_script(path, results):
    """Time over bytes, both logarithmic, a panel for each case that has several sizes."""
    panels = [(case, samples) for case, samples, _, _ in results
              if max((len(by_size) for by_size in samples.values()), default=0) > 1]
    columns = min(2, len(panels))
    lines = [f"set terminal svg size {columns * 640},{(len(panels) + 1) // 2 * 440} noenhanced",
             f"set output '{path}'", "set logscale xy", "set grid", "set key left top",
             "set xlabel 'bytes'", "set xtics rotate by -45"]
    lines += [f"set multiplot layout {(len(panels) + 1) // 2},{columns}"] if panels else []
    for number_, (case, samples) in enumerate(panels):
        lines += [f"set title '{case.name}: {case.title}'", f"set ylabel '{case.unit}'"]
        curves = []
        for index, (label, by_size) in enumerate(samples.items()):
            block = f"$data{number_}_{index}"
            lines += [f"{block} << EOD",
                      *(f"{size} {statistics.median(v)}" for size, v in sorted(by_size.items())),
                      "EOD"]
            curves.append(f"{block} with linespoints title '{label}'")
        lines.append("plot " + ", ".join(curves))
    return "\n".join(lines) + "\n" if panels else ""


def write_plot(path, results):
    """What became of it, in words."""
    if not shutil.which("gnuplot"):
        return "no plot: no gnuplot (scripts/install-deps --bench installs it)"
    script = plot_script(path, results)
    if not script:
        return "no plot: no case with several sizes"
    done = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True)
    return f"plot: {path}" if done.returncode == 0 else f"no plot: gnuplot: {done.stderr.strip()}"


def finish(path, head, results):
    """Writes PATH.json and PATH.svg, prints the sum of it all; 0 where every bar is met, else 1."""
    write_json(f"{path}.json", head, results)
    plot = write_plot(f"{path}.svg", results)
    bars = [row for _, _, rows, _ in results for row in rows]
    met = sum(row.verdict == "ok" for row in bars)
    print(f"\n{met} of {len(bars)} bars met; {path}.json; {plot}")
    unmeasured = [case.name for case, _, rows, _ in results if not rows]
    if unmeasured:
        print(f"not measured: {', '.join(unmeasured)}")
    return 0 if bars and met == len(bars) and not unmeasured else 1
