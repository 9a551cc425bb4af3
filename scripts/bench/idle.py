"""What ranks cost while nothing is pending: wake-ups and CPU time of all their threads."""

import os
import shutil
import subprocess
import time

import programs as p


def ranks_at_rest(place, seconds):
    """[(wake-ups, share of one CPU in %)] of each rank over some seconds without work."""
    build = place.programs.build
    idle = os.path.join(place.programs.folder, "idle")
    source = os.path.join(p.HERE, "peers", "idle.cc")
    library = os.path.join(build, "lib")
    p.compile_program([source, os.path.join(library, "libhv.so")], idle,
                      ["c++", "-std=c++20", "-O2", *p.WARNINGS, source,
                       "-I", os.path.join(p.TREE, "runtime", "include"), "-L", library, "-lhv",
                       f"-Wl,-rpath,{library}"])
    folder = place.shared_folder()
    command = [place.programs.binary("hvrun"), "-np", str(place.ranks), idle, "--folder", folder,
               "--seconds", str(seconds + 4)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        pids = wait_for_ranks(process, folder, place.ranks)
        time.sleep(1)
        before = [sample(pid) for pid in pids]
        time.sleep(seconds)
        after = [sample(pid) for pid in pids]
        process.wait(30)
        return [(a[0] - b[0], 100 * (a[1] - b[1]) / seconds) for a, b in zip(after, before)]
    finally:
        if process.poll() is None:
            p.stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_ranks(process, folder, ranks):
    files = [os.path.join(folder, str(rank)) for rank in range(ranks)]
    end = time.monotonic() + 20
    while not all(map(os.path.exists, files)):
        if process.poll() is not None or time.monotonic() > end:
            p.stop(process)
            raise p.Failed("idle ranks did not start: " + process.stderr.read().strip()[-300:])
        time.sleep(0.05)
    pids = []
    for name in files:
        with open(name) as file:
            pids.append(int(file.read()))
    return pids


def sample(pid):
    """(times that its threads slept and were woken, its CPU seconds)."""
    sleeps = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            sleeps += sum(int(line.split()[1]) for line in file
                          if line.startswith("voluntary_ctxt_switches"))
    # The CPU clock of another process, to the nanosecond, as clock_getcpuclockid(3) encodes it.
    return sleeps, time.clock_gettime(~pid << 3 | 2)


def wake_ups(place, seconds=10):
    return lambda sizes: {0: max(wakes for wakes, _ in ranks_at_rest(place, seconds))}


def cpu_percent(place, seconds=10):
    return lambda sizes: {0: max(share for _, share in ranks_at_rest(place, seconds))}
