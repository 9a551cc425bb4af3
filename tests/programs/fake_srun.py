#!/usr/bin/env python3
"""Stands in for `srun --label` on this machine: starts the command --ntasks times with SLURM_NODEID set, gives all
of them its standard input, labels what they say, tells how each has ended, and ends them when it gets TERM."""

import os
import signal
import subprocess
import sys
import threading

options = [word for word in sys.argv[1:] if word.startswith("--")]
command = [word for word in sys.argv[1:] if not word.startswith("--")]
count = next(int(o.split("=")[1]) for o in options if o.startswith("--ntasks="))
command += [o for o in options if o == "--step"]
lock = threading.Lock()


def copy(source, target, label):
    for line in source:
        with lock:
            target.write(f"{label}: ".encode() + line)
            target.flush()


tasks = []
for node in range(count):
    try:
        tasks.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, start_new_session=True,
                                      env={**os.environ, "SLURM_NODEID": str(node)}))
    except OSError as error:
        sys.exit(f"{node}: slurmstepd: error: execve(): {error.strerror}")


def end(*_):
    for task in tasks:
        try:
            os.killpg(task.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


signal.signal(signal.SIGTERM, end)
copiers = [threading.Thread(target=copy, args=(stream, target, node)) for node, task in enumerate(tasks)
           for stream, target in ((task.stdout, sys.stdout.buffer), (task.stderr, sys.stderr.buffer))]
for copier in copiers:
    copier.start()


def feed():
    while data := os.read(0, 65536):
        for task in tasks:
            try:
                task.stdin.write(data)
                task.stdin.flush()
            except OSError:
                pass
    for task in tasks:
        task.stdin.close()


threading.Thread(target=feed, daemon=True).start()


def watch(node, task):
    code = task.wait()
    how = f"Exited with exit code {code}" if code > 0 else "Killed"
    if code != 0:
        with lock:
            sys.stderr.buffer.write(f"srun: error: h{node}: task {node}: {how}\n".encode())
            sys.stderr.buffer.flush()


watchers = [threading.Thread(target=watch, args=(node, task)) for node, task in enumerate(tasks)]
for watcher in watchers:
    watcher.start()
for thread in watchers + copiers:
    thread.join()
codes = [task.returncode if task.returncode >= 0 else 128 - task.returncode for task in tasks]
os._exit(max(codes, default=0))
