"""One host: its namespaces, its file system, its sshd, its link to the switch."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import time

from .base import (DIR, MS_BIND, MS_PRIVATE, MS_REC, NS, PATH, TREE, address, address6, die,
                   enter, hardware_address, hosts, ip_batch, mount, need_lab, path, read, unshare,
                   write)


def sshd_config(host, port, options=()):
    settings = {
        "Port": port, "HostKey": path(host, "hostkey"), "PidFile": path(host, f"sshd-{port}.pid"),
        "AuthorizedKeysFile": ".ssh/authorized_keys", "StrictModes": "no", "UsePAM": "no",
        "UseDNS": "no", "PermitRootLogin": "yes", "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "AcceptEnv": "LAB_*", "Subsystem": "sftp internal-sftp"}
    settings.update(o.split("=", 1) for o in options)
    write(f"{host}/sshd-{port}.conf", "".join(f"{k} {v}\n" for k, v in settings.items()))
    return ["-f", path(host, f"sshd-{port}.conf"), "-E", path(host, f"sshd-{port}.log")]


def furnish(host):
    """The file system of a host: own /proc /sys /run /tmp /dev/shm and own files in /etc."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    kept = [(d, os.open(d, os.O_PATH)) for d in {DIR, TREE} if d.startswith("/tmp/")]
    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")
    for directory, fd in kept:
        os.makedirs(directory, exist_ok=True)
        mount(f"/proc/self/fd/{fd}", directory, None, MS_BIND | MS_REC)
        os.close(fd)
    mount("proc", "/proc", "proc")
    mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
    mount("tmpfs", "/run", "tmpfs", 0, "mode=755")
    os.makedirs("/run/sshd")
    cgroups = os.open("/sys/fs/cgroup", os.O_PATH) if os.path.isdir("/sys/fs/cgroup") else None
    mount("sysfs", "/sys", "sysfs")
    if cgroups is not None:
        mount(f"/proc/self/fd/{cgroups}", "/sys/fs/cgroup", None, MS_BIND | MS_REC)
        os.close(cgroups)
    for name in ("hosts", "passwd", "group", "shadow", "resolv.conf"):
        mount(path(name), os.path.realpath(f"/etc/{name}"), None, MS_BIND)
    socket.sethostname(host)


def reap_forever():
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.2)


def be_host(host, control):
    """The init of a host. `control` tells our pid, then waits until the link is there."""
    try:
        os.setsid()
        control.send(b"here")
        furnish(host)
        control.recv(1)
        log = os.open(path(host, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open("/dev/null", os.O_RDWR)
        sshd = subprocess.Popen([shutil.which("sshd", path=PATH), *sshd_config(host, 22)],
                                stdin=null, stdout=log, stderr=log)
        sshd.wait()
        pid_file = path(host, "sshd-22.pid")
        for _ in range(500):
            if os.path.exists(pid_file):
                break
            time.sleep(0.01)
        else:
            raise OSError(0, f"sshd did not start, see {path(host)}")
        control.send(b"up")
        control.close()
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 1024)
        reap_forever()
    except BaseException as error:
        with contextlib.suppress(OSError):
            control.send(f"{host}: {error}".encode())
        os._exit(1)


def fork_host(host, switch):
    """Starts the init of a host below the lab's own; returns the socket that controls it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    pid = os.fork()
    if pid == 0:  # its child is in the lab's pid namespace, and that one's child is the host's init
        ours.close()
        enter(switch, "pid")
        if os.fork() == 0:
            enter(switch, "net", "mnt")
            unshare(*NS)
            if os.fork() == 0:
                be_host(host, theirs)
        os._exit(0)
    os.waitpid(pid, 0)
    theirs.close()
    return ours


def neighbours():
    """The kernel keeps one table of neighbours for all namespaces together, of 1,024 that it has found by itself: too
    few for a large lab, whose hosts know each other beforehand."""
    if len(hosts()) <= 24:
        return []
    return [f"neigh replace {at} lladdr {hardware_address(host)} dev eth0 nud permanent"
            for host in hosts() for at in (address(host), address6(host))]


def start_hosts(names):
    switch = int(read("switch"))
    controls = {}
    for host in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path(host, "sshd-22.pid"))
        controls[host] = fork_host(host, switch)
    pids = {}
    for host, control in controls.items():
        data, ancillary, _, _ = control.recvmsg(64, socket.CMSG_SPACE(12))
        if data != b"here":
            die(f"{host} did not start: {data.decode()}")
        # The kernel translates the sender's pid into our pid namespace.
        pids[host] = struct.unpack("3i", ancillary[0][2])[0]
    ip_batch(switch, [line for host, pid in pids.items() for line in (
        f"link add {host} type veth peer name eth0 address {hardware_address(host)} netns {pid}",
        f"link set {host} master br0 up")])
    for host, pid in pids.items():
        ip_batch(pid, ["link set lo up", f"addr add {address(host)}/24 dev eth0",
                       f"addr add {address6(host)}/64 dev eth0 nodad", "link set eth0 up", *neighbours()])
        controls[host].send(b"g")
    for host, control in controls.items():
        said = control.recv(512)
        if said != b"up":
            die(f"{host} did not start: {said.decode()}")
        write(f"{host}/pid", str(pids[host]))


def cmd_boot(args):
    need_lab()
    if args.host not in hosts():
        die(f"no host {args.host}")
    if os.path.exists(path(args.host, "pid")):
        die(f"{args.host} is up")
    start_hosts([args.host])
