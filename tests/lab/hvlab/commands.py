"""What one does with a lab that is up: run things on hosts, and break the network."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess

from .accounts import account
from .base import (PATH, PR_SET_PDEATHSIG, address, address6, die, enter, hosts, init_pid,
                   libc, need_lab, path, read, run, say, wait_for, write)
from .machine import sshd_config

FORWARDED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH]


def cmd_exec(args):
    need_lab()
    pid = init_pid(args.host)
    uid, gid, home, shell = account(args.user)
    keep_out = re.compile(r"SSH_|XDG_|LAB_DIR$|TMPDIR$|HOSTNAME$")
    environment = {k: v for k, v in os.environb.items() if not keep_out.match(os.fsdecode(k))}
    environment.update({k.encode(): v.encode() for k, v in (
        ("HOME", home), ("USER", args.user), ("LOGNAME", args.user), ("SHELL", shell))})
    if os.path.exists(path("slurm", "slurm.conf")):
        environment[b"SLURM_CONF"] = os.fsencode(path("slurm", "slurm.conf"))
    at_terminal = os.isatty(0)  # then the terminal signals both of us; else we pass signals on
    enter(pid, "pid")
    directory = args.directory or home
    # Blocked until the child's pid is known, so that none is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    child = os.fork()
    if child == 0:
        try:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if not at_terminal:
                os.setpgid(0, 0)
            enter(pid, "net", "uts", "ipc", "mnt")
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # setuid has cleared it
            os.chdir(directory)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            os.execvpe(args.command[0], args.command, environment)
        except OSError as error:
            say(f"{args.host}: {args.command[0]}: {error}")
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    for forwarded in FORWARDED:
        signal.signal(forwarded, lambda n, _: None if at_terminal else os.kill(child, n))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def start_inside(pid, kinds, argv, output):
    """A daemon of the lab: it lives in the pid namespace of `pid` and ends with it."""
    enter_pid = os.fork()
    if enter_pid == 0:
        enter(pid, "pid")
        if os.fork() == 0:
            enter(pid, *kinds)
            os.setsid()
            os.dup2(os.open("/dev/null", os.O_RDWR), 0)
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.execvpe(argv[0], argv, {**os.environ, "PATH": PATH})
        os._exit(0)
    os.waitpid(enter_pid, 0)


def cmd_sshd(args):
    need_lab()
    pid = init_pid(args.host)
    options = [o for o in args.options if "=" in o]
    if len(options) != len(args.options):
        die("options of sshd are written OPTION=VALUE")
    argv = [shutil.which("sshd", path=PATH), *sshd_config(args.host, args.port, options)]
    argv += ["-d"] if args.once else ["-D"]
    output = path(args.host, f"sshd-{args.port}.out")
    start_inside(pid, ("net", "uts", "ipc", "mnt"), argv, output)
    log = path(args.host, f"sshd-{args.port}.log")
    wait_for(lambda: os.path.exists(log) and "Server listening" in open(log).read(), 5,
             f"sshd on port {args.port} of {args.host} did not start, see {output} and {log}")


def host_processes(host):
    """(pid, command) of all processes of a host, except those of the lab itself."""
    init = init_pid(host)
    namespace = os.readlink(f"/proc/{init}/ns/pid")
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == init:
            continue
        try:
            if os.readlink(f"/proc/{entry}/ns/pid") != namespace:
                continue
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                command = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
            with open(f"/proc/{entry}/stat") as f:
                stat = f.read()
        except OSError:
            continue
        name = stat[stat.index("(") + 1:stat.rindex(")")]
        state = stat[stat.rindex(")") + 2:].split()[0]
        if name in ("sshd", "slurmd", "slurmctld", "slurmscriptd", "slurmstepd", "munged"):
            continue
        found.append((int(entry), command or f"[{name}] {'zombie' if state == 'Z' else ''}".strip()))
    return found


def cmd_ps(args):
    need_lab()
    for host in [args.host] if args.host else hosts():
        if args.host or os.path.exists(path(host, "pid")):
            for pid, command in host_processes(host):
                print(host, pid, command)


def in_switch(argv):
    run(argv, preexec_fn=lambda: enter(int(read("switch")), "net"))


def set_port(host, state):
    init_pid(host)
    in_switch(["bridge", "link", "set", "dev", host, "state", state])


def cmd_cut(args):
    need_lab()
    set_port(args.host, "0")


def cmd_heal(args):
    need_lab()
    set_port(args.host, "3")


def cmd_kill(args):
    need_lab()
    pid = init_pid(args.host)
    set_port(args.host, "0")  # else its kernel would still close its connections politely
    gone = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    if not select.select([gone], [], [], 10)[0]:
        die(f"{args.host} does not die")
    os.remove(path(args.host, "pid"))
    # Its network namespace may outlive it, held by what TCP still wants to say; its link must not.
    subprocess.run(["ip", "link", "del", args.host], stderr=subprocess.DEVNULL,
                   preexec_fn=lambda: enter(int(read("switch")), "net"))


def cmd_rate(args):
    need_lab()
    pid = init_pid(args.host)
    for where, device in ((int(read("switch")), args.host), (pid, "eth0")):
        subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], stderr=subprocess.DEVNULL,
                       preexec_fn=lambda ns=where: enter(ns, "net"))
        if args.rate != "off":
            run(["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", args.rate, "burst",
                 "128kb", "latency", "50ms"], preexec_fn=lambda ns=where: enter(ns, "net"))


def cmd_firewall(args):
    need_lab()
    pid = init_pid(args.host)
    rules = "table inet lab {}\ndelete table inet lab\n"
    if args.ports != ["off"]:
        bad = [p for p in args.ports if not re.fullmatch(r"\d+(-\d+)?", p)]
        if bad:
            die(f"not a port or a range of ports: {bad[0]}")
        rules += f"""table inet lab {{
            chain in {{
                type filter hook input priority 0; policy drop;
                iif lo accept
                ct state established,related accept
                icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
                tcp dport {{ {", ".join(args.ports)} }} accept
            }}
        }}
        """
    run(["nft", "-f", "-"], input=rules.encode(), preexec_fn=lambda: enter(pid, "net"))


def cmd_alias(args):
    need_lab()
    init_pid(args.host)
    write("hosts", f"{address(args.host)} {args.alias}\n{address6(args.host)} {args.alias}\n",
          append=True)
    key = " ".join(read(f"{args.host}/hostkey.pub").split()[:2])
    for user in os.listdir(path("home")):
        with open(path("home", user, ".ssh", "known_hosts"), "a") as f:
            f.write(f"{args.alias} {key}\n")


def cmd_capture(args):
    need_lab()
    running = read("capture", "")
    if args.file == "stop":
        if not running:
            die("nothing is being recorded")
        gone = os.pidfd_open(int(running))
        os.kill(int(running), signal.SIGINT)
        select.select([gone], [], [], 10)
        os.remove(path("capture"))
        return
    if running:
        die("a recording runs already; lab capture stop ends it")
    output = path("capture.out")
    switch = int(read("switch"))
    target = os.path.abspath(args.file)
    start_inside(switch, ("net", "mnt"),
                 ["tcpdump", "-Z", "root", "-i", "br0", "--immediate-mode", "-U", "-w", target], output)
    wait_for(lambda: "listening on" in read("capture.out", ""), 5,
             f"tcpdump did not start, see {output}")
    namespace = os.readlink(f"/proc/{switch}/ns/pid")
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{entry}/ns/pid") == namespace:
                with open(f"/proc/{entry}/comm") as f:
                    if f.read() == "tcpdump\n":
                        write("capture", entry)
