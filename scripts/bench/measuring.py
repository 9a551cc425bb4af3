"""What is compared with what, and the arithmetic of it. Nothing here runs or prints anything."""

import dataclasses
import statistics
from typing import Callable

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Messages of low, low * factor, ... up to high bytes; each measured `iters` times in a run."""
    low: int
    high: int
    iters: int
    warmup: int
    factor: int = 2

    def all(self):
        size = self.low
        while size <= self.high:
            yield size
            size *= self.factor

    def scaled(self, by):
        return dataclasses.replace(self, low=self.low * by, high=self.high * by)

    def coarse(self):
        """Fewer sizes and calls, for a first look."""
        return dataclasses.replace(self, factor=self.factor ** 3, iters=max(5, self.iters // 4))


@dataclasses.dataclass(frozen=True)
class Bar:
    """`series` must take at most `limit` times what the fastest of `against` takes; or, where
    `against` is empty, at most `limit` of its own unit."""
    series: str
    limit: float
    against: tuple = ()
    low: int = 0
    high: int = 1 << 62


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table of bars. A series is a function from Sizes to {bytes: value}."""
    name: str
    title: str
    sizes: tuple
    series: dict[str, Callable]
    bars: tuple
    hosts: int = 0       # hosts of the lab, 0: this machine
    rate: str = ""       # their links, "": as fast as they are
    unit: str = "us"
    allocation: tuple = ()  # options of salloc: all of the case runs in one job of Slurm


@dataclasses.dataclass
class Row:
    """One bar at one size, judged."""
    case: str
    bytes: int
    series: str
    value: float | None
    against: str
    reference: float | None
    ratio: float | None
    spread: tuple | None  # lowest and highest ratio of a single round
    limit: float
    verdict: str  # ok, short, or missing (a program did not run)
    unit: str


def choose(cases, wanted):
    """The cases named; a name of no case stands for all cases that begin with it."""
    if not wanted:
        return list(cases)
    chosen = []
    for name in wanted:
        found = [c for c in cases if c.name == name]
        found = found or [c for c in cases if c.name.startswith(name)]
        if not found:
            raise ValueError(f"no case {name}; there are {', '.join(c.name for c in cases)}")
        chosen += [c for c in found if c not in chosen]
    return chosen


def fastest(medians, labels):
    """(label, value) of the lowest of those that have a value, or None."""
    found = [(label, medians[label]) for label in labels if label in medians]
    return min(found, key=lambda pair: pair[1]) if found else None


def judge(case, samples):
    """samples: {series: {bytes: [one value per round]}}; a Row for each bar at each size."""
    sizes = sorted({size for values in samples.values() for size in values})
    rows = []
    for size in sizes:
        here = {label: values[size] for label, values in samples.items() if values.get(size)}
        medians = {label: statistics.median(values) for label, values in here.items()}
        rows += [judge_bar(case, bar, size, here, medians) for bar in case.bars
                 if bar.low <= size <= bar.high]
    return rows


def judge_bar(case, bar, size, here, medians):
    value = medians.get(bar.series)
    reference = fastest(medians, bar.against)
    row = Row(case.name, size, bar.series, value, " ".join(bar.against), None, None, None,
              bar.limit, "missing", case.unit)
    if value is None or (bar.against and reference is None):
        return row
    if not bar.against:
        row.verdict = "ok" if value <= bar.limit else "short"
        return row
    row.against, row.reference = reference
    row.ratio = value / row.reference
    pairs = (here[bar.series], here[row.against])
    if len(pairs[0]) == len(pairs[1]) > 1:  # else a run has failed, and rounds do not match
        ratios = [a / b for a, b in zip(*pairs)]
        row.spread = (min(ratios), max(ratios))
    # The bars speak of the fastest of several peers; one that did not run may have been faster.
    complete = all(label in medians for label in bar.against)
    row.verdict = "short" if row.ratio > bar.limit else "ok" if complete else "missing"
    return row


def wire_limit_us(size, hosts, bits_per_second):
    """The hierarchical form: each host sends and receives 2(h-1)/h of the bytes once, in Ethernet
    frames of 1514 bytes with 1448 bytes of payload."""
    return size * 2 * (hosts - 1) / hosts * 1514 / 1448 * 8 / bits_per_second * 1e6


def memory_limit_us(size, copy_gbs):
    """Two ranks reduce in place: 2 S are read and 2 S written, at the bandwidth of copying."""
    return 4 * size / (copy_gbs * 1e9) * 1e6


def bytes_text(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
