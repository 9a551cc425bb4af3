"""What every part of the lab needs: its state under LAB_DIR, namespaces, tools, names of hosts."""

import ctypes
import os
import subprocess
import sys
import time

DIR = os.path.abspath(os.environ.get("LAB_DIR", "/tmp/hvlab"))
TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

libc = ctypes.CDLL(None, use_errno=True)
NS = {"net": 0x40000000, "uts": 0x04000000, "ipc": 0x08000000, "mnt": 0x00020000, "pid": 0x20000000}
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1


def say(text):
    print(f"lab: {text}", file=sys.stderr)


def die(text, code=1):
    say(text)
    sys.exit(code)


def checked(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unshare(*kinds):
    checked(libc.unshare(sum(NS[k] for k in kinds)), "unshare " + " ".join(kinds))


def enter(pid, *kinds):
    """Moves this process into namespaces of `pid`; for "pid" its children only."""
    fds = [(k, os.open(f"/proc/{pid}/ns/{k}", os.O_RDONLY)) for k in kinds]
    for kind, fd in fds:
        checked(libc.setns(fd, NS[kind]), f"setns {kind} of {pid}")
        os.close(fd)


def mount(source, target, kind=None, flags=0, data=None):
    arguments = [a.encode() if a else None for a in (source, target, kind)]
    checked(libc.mount(*arguments, flags, data.encode() if data else None), f"mount {target}")


def run(argv, **options):
    """Runs a tool; its standard error becomes ours and a failure ends lab."""
    result = subprocess.run(argv, env={**os.environ, "PATH": PATH}, **options)
    if result.returncode != 0:
        die(f"{' '.join(argv)}: failed with {result.returncode}")


def path(*parts):
    return os.path.join(DIR, *parts)


def read(name, missing=None):
    try:
        with open(path(name)) as f:
            return f.read()
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise


def write(name, text, mode=0o644, append=False):
    """In place, so that bind mounts of the file see it."""
    with open(path(name), "a" if append else "w") as f:
        f.write(text)
    os.chmod(path(name), mode)


def ip_batch(pid, lines):
    """ip(8) commands inside the network namespace of `pid`; standard input carries them."""
    run(["ip", "-batch", "-"], input="\n".join(lines).encode() + b"\n",
        preexec_fn=lambda: enter(pid, "net"))


def number(host):
    return 100 if host == "h0" else int(host[1:])


def address(host):
    return f"10.77.0.{number(host)}"


def address6(host):
    return f"fd77::{number(host)}"


def hardware_address(host):
    """Fixed, so that a host that comes back is found by those who knew it."""
    return f"02:00:00:77:00:{number(host):02x}"


def hosts():
    return read("names").split()


def init_pid(host):
    """The host's init, as seen from here."""
    if host not in hosts():
        die(f"no host {host}; there are {' '.join(hosts())}")
    pid = read(f"{host}/pid", "")
    if not pid:
        die(f"{host} is dead; lab boot {host} starts it again")
    return int(pid)


def need_lab():
    if not os.path.exists(path("switch")):
        die(f"no lab in {DIR}; lab up N starts one")


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            die(what)
        time.sleep(0.01)
