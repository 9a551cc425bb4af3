"""Accounts of the hosts: root and the ordinary users, all with the lab's key."""

import os
import shutil

from .base import die, need_lab, path, read, write

FIRST_UID = 20000


def make_account(name, uid, shell):
    home = path("home", name)
    if name != "root":
        write("passwd", f"{name}:x:{uid}:{uid}::{home}:{shell}\n", append=True)
        write("group", f"{name}:x:{uid}:\n", append=True)
        write("shadow", f"{name}:*:19000:0:99999:7:::\n", 0o640, append=True)
    os.makedirs(f"{home}/.ssh")
    for source in ("id_ed25519", "id_ed25519.pub", "known_hosts"):
        shutil.copy(path(source), f"{home}/.ssh/{source}")
    shutil.copy(path("id_ed25519.pub"), f"{home}/.ssh/authorized_keys")
    for directory, _, files in os.walk(home):
        os.chown(directory, uid, uid)
        os.chmod(directory, 0o700)
        for f in files:
            os.chown(os.path.join(directory, f), uid, uid)
            os.chmod(os.path.join(directory, f), 0o600)


def cmd_user(args):
    need_lab()
    if any(line.split(":")[0] == args.name for line in read("passwd").splitlines()):
        die(f"there is a user {args.name} already")
    if not os.access(args.shell, os.X_OK):
        die(f"no shell {args.shell}; install it")
    taken = [int(line.split(":")[2]) for line in read("passwd").splitlines()]
    make_account(args.name, max([FIRST_UID, *(u + 1 for u in taken if u < 60000 and u >= FIRST_UID)]),
                 args.shell)


def account(name):
    for line in read("passwd").splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3]), fields[5], fields[6]
    die(f"no user {name}; lab user {name} makes one")


def write_accounts():
    """This machine's system accounts, with root at home inside the lab."""
    with open("/etc/passwd") as f:
        lines = [line.rstrip("\n").split(":") for line in f]
    for fields in lines:
        if fields[0] == "root":
            fields[5:7] = [path("home", "root"), "/bin/bash"]
    system = [f for f in lines if int(f[2]) < 1000 or int(f[2]) > 60000]
    write("passwd", "".join(":".join(f) + "\n" for f in system))
    write("shadow", "".join(f"{f[0]}:*:19000:0:99999:7:::\n" for f in system), 0o640)
    shutil.copy("/etc/group", path("group"))
