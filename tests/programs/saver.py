"""A rank that logs each signal it gets into DIR/rank.N, and after TERM or USR1 "saves" for SECONDS and exits with
0: saver.py DIR SECONDS. On a second run (DIR/saved is there) it ends at once."""

import os
import signal
import sys
import time

folder, seconds = sys.argv[1], float(sys.argv[2])
rank = os.environ["HVRUN_RANK"]
asked = []


def log(text):
    with open(os.path.join(folder, f"rank.{rank}"), "a") as out:
        out.write(text + "\n")


def on_signal(number, _):
    log(signal.Signals(number).name)
    if number in (signal.SIGTERM, signal.SIGUSR1):
        asked.append(number)


if os.path.exists(os.path.join(folder, "saved")):
    log("resumed")
    sys.exit(0)
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, on_signal)
print("ready", flush=True)
while not asked:
    time.sleep(0.05)
end = time.monotonic() + seconds
while time.monotonic() < end:
    time.sleep(0.05)
with open(os.path.join(folder, "saved"), "w"):
    pass
log("saved")
