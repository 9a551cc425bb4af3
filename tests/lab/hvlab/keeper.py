"""The life of a lab: can it be, up, down, and the keeper that leaves nothing behind."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import time

from .accounts import make_account, write_accounts
from .base import (DIR, MS_PRIVATE, MS_REC, NS, PATH, PR_SET_PDEATHSIG, address, address6, die,
                   ip_batch, libc, mount, path, read, unshare, write)
from .machine import reap_forever, start_hosts

TOOLS = ["ip", "bridge", "tc", "nft", "sshd", "ssh-keygen", "tcpdump"]
SKIPPED = 77


def obstacle():
    """Why no lab can run here, or None."""
    if os.geteuid() != 0:
        return "needs root (namespaces, sshd)"
    missing = [t for t in TOOLS if not shutil.which(t, path=PATH)]
    if missing:
        return "not installed: " + ", ".join(missing)
    if not hasattr(os, "pidfd_open"):
        return "needs Python 3.9 or newer"
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            unshare(*NS)
            os._exit(0)
        os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        return "the kernel refuses new namespaces to this process"
    return None


def cmd_check(_):
    why = obstacle()
    if why:
        die(why, SKIPPED)


def lock_lab():
    """The open, locked file that marks a living lab; None if another lab lives there."""
    fd = os.open(path("lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except BlockingIOError:
        os.close(fd)
        return None


def clear_stale():
    if not os.path.exists(DIR):
        return
    if not os.path.exists(path("lock")):
        die(f"{DIR} exists and is no lab; set LAB_DIR to another place")
    lock = lock_lab()
    if lock is None:
        die(f"a lab is up in {DIR} (lab down ends it; LAB_DIR chooses another)")
    os.close(lock)
    shutil.rmtree(DIR)


def be_switch(ready):
    """Process 1 of the lab: with it every process on every host ends, and every link."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc")
    os.closerange(3, ready)
    os.closerange(ready + 1, 1024)
    os.write(ready, b"1")
    os.close(ready)
    reap_forever()


def keep(hold, lock, report):
    """The keeper: outside the lab; when it is told, when `hold` ends or the lab dies, it cleans up."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    log = os.open(path("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    held = os.dup(0) if hold else None
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    wake_read, wake_write = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(wake_write, b"x"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    unshare("pid", "net", "mnt")
    ready_read, ready_write = os.pipe()
    switch = os.fork()
    if switch == 0:
        try:
            be_switch(ready_write)
        finally:
            os._exit(1)
    os.close(ready_write)
    poll = select.poll()
    poll.register(os.pidfd_open(switch), select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    if os.read(ready_read, 1) == b"1":
        write("switch.new", str(switch))
        os.rename(path("switch.new"), path("switch"))
        os.write(report, b"1")
    os.close(report)
    if held is not None:
        poll.register(held, select.POLLIN | select.POLLHUP)
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if held in ready and os.read(held, 4096):
            continue
        break
    os.kill(switch, signal.SIGKILL)
    os.waitpid(switch, 0)
    for _ in range(100):
        shutil.rmtree(DIR, ignore_errors=True)
        if not os.path.exists(DIR):
            break
        time.sleep(0.02)
    os.close(lock)
    os._exit(0)


def make_keys(names):
    makers = [subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", f],
                               stdin=subprocess.DEVNULL)
              for f in [path("id_ed25519"), *(path(h, "hostkey") for h in names)]]
    if any(maker.wait() for maker in makers):
        die("ssh-keygen failed")
    known = ""
    for host in names:
        key = " ".join(read(f"{host}/hostkey.pub").split()[:2])
        known += f"{host},{address(host)},{address6(host)} {key}\n"
    write("known_hosts", known)


def cmd_up(args):
    why = obstacle()
    if why:
        die(why, SKIPPED)
    if not 0 <= args.count < 100:
        die("from 0 to 99 hosts besides h0")
    clear_stale()
    os.makedirs(DIR, 0o755)
    os.chmod(DIR, 0o755)
    lock = lock_lab()
    if lock is None:
        die(f"another lab starts in {DIR} just now")
    names = [f"h{i}" for i in range(args.count + 1)]
    read_end, write_end = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        try:
            os.close(read_end)
            keep(args.hold, lock, write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    os.close(lock)
    write("keeper", str(keeper))
    try:
        if os.read(read_end, 1) != b"1":
            die(f"the lab did not start: {read('log', '')}")
        for host in names:
            os.mkdir(path(host))
        write("names", " ".join(names))
        write("hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n" +
              "".join(f"{address(h)} {h}\n{address6(h)} {h}\n" for h in names))
        write("resolv.conf", "# no name server\n")
        write_accounts()
        make_keys(names)
        make_account("root", 0, "/bin/bash")
        ip_batch(int(read("switch")), ["link set lo up", "link add br0 type bridge",
                                       "link set br0 up"])
        start_hosts(names)
    except BaseException:
        end_lab(keeper)
        raise


def end_lab(keeper):
    try:
        gone = os.pidfd_open(keeper)
        os.kill(keeper, signal.SIGTERM)
    except ProcessLookupError:
        return
    if not select.select([gone], [], [], 20)[0]:
        die(f"the keeper (pid {keeper}) does not end")


def cmd_down(_):
    if not os.path.exists(path("lock")):
        return
    keeper = read("keeper", "")
    lock = lock_lab()
    if lock is not None:  # nobody keeps it
        os.close(lock)
    elif keeper:
        end_lab(int(keeper))
    shutil.rmtree(DIR, ignore_errors=True)
