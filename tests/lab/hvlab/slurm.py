"""Slurm on the hosts of a lab: the controller on h0, a node on every other host, munge on all of them."""

import os
import re
import shutil
import stat
import subprocess
import time

from .base import PATH, address, die, enter, hosts, init_pid, need_lab, path, write
from .commands import start_inside

TOOLS = ["slurmctld", "slurmd", "munged", "srun", "sbatch", "scontrol"]
KINDS = ("net", "uts", "ipc", "mnt")
CPUS, GPUS, MEGABYTES = 8, 4, 4000
KILL_WAIT = 5  # seconds between TERM and KILL of scancel


def missing_tools():
    return [tool for tool in TOOLS if not shutil.which(tool, path=PATH)]


def configuration(nodes, options):
    """The nodes have pretend cores and cards: more than one job fits on a machine of any size. `main` gives way to
    `urgent`, after a time of grace."""
    settings = {
        "ClusterName": "hvlab", "SlurmctldHost": f"h0({address('h0')})", "AuthType": "auth/munge",
        "SlurmUser": "root", "SlurmdUser": "root", "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none", "DefMemPerCPU": "200", "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory", "MpiDefault": "none", "ReturnToService": "2",
        "KillWait": KILL_WAIT, "PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE",
        "SchedulerParameters": "sched_min_interval=0,bf_interval=1,batch_sched_delay=0",
        "MinJobAge": "300", "StateSaveLocation": path("slurm", "state"),
        "SlurmdSpoolDir": path("slurm", "spool-%n"), "SlurmctldPidFile": path("slurm", "slurmctld.pid"),
        "SlurmdPidFile": path("slurm", "slurmd-%n.pid"), "SlurmctldLogFile": path("slurm", "slurmctld.log"),
        "SlurmdLogFile": path("slurm", "slurmd-%n.log"), "SlurmdParameters": "config_overrides",
        "JobAcctGatherFrequency": "0", "GresTypes": "gpu"}
    settings.update(options)
    lines = [f"{key}={value}" for key, value in settings.items()]
    for node in nodes:
        lines.append(f"NodeName={node} NodeAddr={address(node)} CPUs={CPUS} Boards=1 SocketsPerBoard=1 "
                     f"CoresPerSocket={CPUS} ThreadsPerCore=1 RealMemory={MEGABYTES} Gres=gpu:{GPUS}")
    lines += ["PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=20",
              "PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF"]
    return "\n".join(lines) + "\n"


def start_munge(host, pid):
    """Each host has its own daemon, as on a real cluster: it knows which credentials it has seen."""
    folder = path(host, "munge")
    os.makedirs(folder, mode=0o755, exist_ok=True)

    def prepare():  # where clients look for the socket
        enter(pid, "mnt")
        os.makedirs("/run/munge", mode=0o755, exist_ok=True)

    subprocess.run(["true"], check=True, preexec_fn=prepare)
    start_inside(pid, KINDS, ["munged", "--foreground", "--force", "--key-file", path("slurm", "munge.key"),
                              "--socket", "/run/munge/munge.socket.2",
                              "--pid-file", f"{folder}/munged.pid", "--log-file", f"{folder}/munged.log",
                              "--seed-file", f"{folder}/munged.seed"], path(host, "munged.out"))


def in_host(host, argv, **options):
    pid = init_pid(host)
    return subprocess.run(argv, env={**os.environ, "PATH": PATH, "SLURM_CONF": path("slurm", "slurm.conf")},
                          preexec_fn=lambda: enter(pid, *KINDS), **options)


def all_idle(nodes):
    answer = in_host("h0", ["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"], capture_output=True, text=True)
    return answer.stdout.strip() == str(len(nodes))


def cmd_slurm(args):
    need_lab()
    lacking = missing_tools()
    if lacking:
        die("not installed: " + ", ".join(lacking) + " (slurmctld, slurmd, slurm-client, munge)", 77)
    bad = [option for option in args.options if not re.fullmatch(r"\w+=.*", option)]
    if bad:
        die(f"settings of slurm.conf are written KEY=VALUE, not {bad[0]}")
    nodes = hosts()[1:]
    for folder in ("slurm", "slurm/state", *(f"slurm/spool-{node}" for node in nodes)):
        os.makedirs(path(folder), mode=0o755, exist_ok=True)
    with open(os.open(path("slurm", "munge.key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as key:
        key.write(os.urandom(128))
    for number in range(GPUS):  # as good a card as any: /dev/null
        os.mknod(path("slurm", f"gpu{number}"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    write("slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
    write("slurm/gres.conf", f"Name=gpu File={path('slurm', f'gpu[0-{GPUS - 1}]')}\n")
    write("slurm/slurm.conf", configuration(nodes, dict(o.split("=", 1) for o in args.options)))
    for host in hosts():
        start_munge(host, init_pid(host))
    conf = path("slurm", "slurm.conf")
    os.environ["SLURM_CONF"] = conf
    start_inside(init_pid("h0"), KINDS, ["slurmctld", "-D", "-f", conf], path("h0", "slurmctld.out"))
    for node in nodes:
        start_inside(init_pid(node), KINDS, ["slurmd", "-D", "-f", conf, "-N", node], path(node, "slurmd.out"))
    end = time.monotonic() + 60
    while not all_idle(nodes):
        if time.monotonic() > end:
            die(f"Slurm's nodes are not idle; see {path('slurm')}/*.log and {path('h*')}/*.out")
        time.sleep(0.1)
