"""The programs that are measured: how they are built, found, started and read.

A program that fails or hangs is a Failed with what it said; the measuring goes on without it.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow"]
MPI_FLAGS = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]

# program -> (source, compiler, flags, what must exist, the Debian package that brings it)
PEERS = {
    "openmpi": ("mpi.cc", "mpicxx.openmpi", MPI_FLAGS, "mpicxx.openmpi",
                "openmpi-bin libopenmpi-dev"),
    "mpich": ("mpi.cc", "mpicxx.mpich", MPI_FLAGS, "mpicxx.mpich", "mpich libmpich-dev"),
    "gloo": ("gloo.cc", "c++", ["-pthread", "-lgloo"], "/usr/include/gloo/allreduce.h",
             "libgloo-dev"),
    "membw": ("membw.cc", "c++", ["-O3", "-march=native", "-fno-tree-loop-distribute-patterns"],
              "c++", "g++"),
    "blast": ("blast.cc", "c++", ["-pthread"], "c++", "g++"),
}


class Failed(Exception):
    """A program did not do what it should; the text says which and how."""


def absent(program):
    """What to install for a peer, or None where all is there."""
    needed, package = PEERS[program][3:]
    return None if shutil.which(needed) or os.path.exists(needed) else package


def compile_program(inputs, output, command):
    if os.path.exists(output) and \
            os.path.getmtime(output) > max(os.path.getmtime(i) for i in inputs):
        return
    result = subprocess.run([*command, "-o", output], capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{os.path.basename(output)} does not compile:\n{result.stderr}")


def records(text):
    """The JSON objects among the lines of an output; other lines are what launchers say."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError as error:
                raise Failed(f"not a JSON line: {line[:80]}: {error}") from error
    return found


def times(found):
    """{bytes: time_us}; a wrong result is a failure, however fast it was."""
    for record in found:
        if record.get("wrong", 0):
            raise Failed(f"{record['wrong']} wrong elements at {record['bytes']} bytes")
    if not found:
        raise Failed("printed no result")
    return {record["bytes"]: record["time_us"] for record in found}


def stop(process):
    """Ends a program and what it started: first asked, then killed."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def run_all(commands, timeout):
    """Runs the commands side by side; the standard output of each. Hung ones are ended."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as folder:
        outputs = [(open(os.path.join(folder, f"{i}.out"), "w+"),
                    open(os.path.join(folder, f"{i}.err"), "w+")) for i in range(len(commands))]
        processes = [subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=o, stderr=e,
                                      env=environment, start_new_session=True)
                     for c, (o, e) in zip(commands, outputs)]
        try:
            end = time.monotonic() + timeout
            for process in processes:
                process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise Failed(f"hung: {' '.join(processes[0].args[:6])} ... after {timeout} s") from error
        finally:
            for process in processes:
                if process.poll() is None:
                    stop(process)
        texts = []
        for process, (out, err) in zip(processes, outputs):
            out.seek(0)
            err.seek(0)
            if process.returncode != 0:
                last = " | ".join(err.read().strip().splitlines()[-4:])
                raise Failed(f"{' '.join(process.args[:6])} ... exited {process.returncode}: {last}")
            texts.append(out.read())
        return texts


class Place:
    """Where the ranks run: this machine, or some hosts of the lab with a few ranks on each."""

    def __init__(self, programs, ranks, lab=None, hosts=0):
        self.programs, self.ranks, self.lab, self.hosts = programs, ranks, lab, hosts
        self.names = [f"h{i + 1}" for i in range(hosts)]
        self.per_host = ranks // hosts if hosts else ranks

    def argv(self, argv, host="h0"):
        """The command as it is run from here."""
        if not self.hosts:
            return argv
        return ["env", f"LAB_DIR={self.lab().dir}", *self.lab().exec_argv(host, argv, cwd=TREE)]

    def shared_folder(self):
        return tempfile.mkdtemp(prefix="bench-", dir=self.lab().file() if self.hosts else None)

    def host_list(self):
        return ",".join(f"{name}:{self.per_host}" for name in self.names)

    # Each of these gives a series: a function from Sizes to {bytes: us}.

    def hvbench(self, *flags, raw=True):
        def run(sizes):
            flags_here = [*flags, *(["--raw"] if raw else []), *size_flags(sizes)]
            return times(self.hvbench_records(["allreduce", *flags_here], sizes))
        return run

    def hvbench_once(self, key, *flags):
        """The first figure of a run without sizes of its own: {key: us}."""
        def run(sizes):
            found = self.hvbench_records(
                ["allreduce", *flags, "--iters", str(sizes.iters), "--warmup", str(sizes.warmup)],
                sizes)
            return {key: us for us in times(found[:1]).values()}
        return run

    def hvbench_records(self, flags, sizes):
        folder = self.shared_folder()
        try:
            output = os.path.join(folder, "hvbench.json")
            where = ["-H", self.host_list()] if self.hosts else []
            command = [self.programs.binary("hvrun"), "-np", str(self.ranks), *where,
                       self.programs.binary("hvbench"), *flags, "--json", output]
            run_all([self.argv(command)], self.programs.timeout(sizes))
            with open(output) as file:
                return records(file.read())
        except FileNotFoundError as error:
            raise Failed(f"hvbench left no {error.filename}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def openmpi(self):
        return self.mpi("openmpi", ["mpirun.openmpi", "--oversubscribe", *(
            ["--host", self.host_list(), "--mca", "btl_tcp_if_include", "eth0",
             "--mca", "oob_tcp_if_include", "eth0"] if self.hosts else [])])

    def mpich(self):
        return self.mpi("mpich", ["mpiexec.mpich", *(
            ["-hosts", self.host_list()] if self.hosts else [])])

    def mpi(self, program, launcher):
        def run(sizes):
            command = [*launcher, "-np", str(self.ranks), self.programs.peer(program),
                       *size_flags(sizes)]
            timeout = self.programs.timeout(sizes)
            try:
                return times(records(run_all([self.argv(command)], timeout)[0]))
            except Failed as failed:
                if "hung" not in str(failed):
                    raise
                # mpirun hangs now and then; that is not what is measured here.
                return times(records(run_all([self.argv(command)], timeout)[0]))
        return run

    def gloo(self, algorithm="ring"):
        def run(sizes):
            folder = self.shared_folder()
            try:
                commands = []
                for rank in range(self.ranks):
                    command = [self.programs.peer("gloo"), "--rank", str(rank), "--size",
                               str(self.ranks), "--store", folder, "--interface",
                               "eth0" if self.hosts else "lo", "--algorithm", algorithm,
                               *size_flags(sizes)]
                    host = self.names[rank // self.per_host] if self.hosts else ""
                    commands.append(self.argv(command, host))
                return times(records(run_all(commands, self.programs.timeout(sizes))[0]))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return run

    def copy_gbs(self):
        """{bytes: gigabytes per second}, read and written, of as many processes as ranks."""
        def run(sizes):
            command = [self.programs.peer("membw"), "--processes", str(self.ranks),
                       *size_flags(sizes)]
            found = records(run_all([command], self.programs.timeout(sizes))[0])
            return {record["bytes"]: record["copy_gbs"] for record in found}
        return run

    def wire_bits_per_second(self, seconds=2):
        """Payload that h1 and h2 receive at the same time from each other; the lower of the two."""
        blast = self.programs.peer("blast")
        options = ["--port", "31000", "--seconds", str(seconds)]
        listens = self.argv([blast, "--connect", "0.0.0.0", *options], "h1")
        connects = self.argv([blast, "--connect", "10.77.0.1", *options], "h2")
        texts = run_all([listens, connects], 20 + seconds)
        return min(record["bits_per_second"] for t in texts for record in records(t))


def size_flags(sizes):
    return ["--min-bytes", str(sizes.low), "--max-bytes", str(sizes.high), "--factor",
            str(sizes.factor), "--iters", str(sizes.iters), "--warmup", str(sizes.warmup)]


class Programs:
    """Paths of all binaries; what a run may take."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.missing = {}  # peer -> why it is not there

    def build_peers(self):
        """Builds the peers that are older than their source."""
        os.makedirs(self.folder, exist_ok=True)
        for program, (source, compiler, flags, _, _) in PEERS.items():
            if package := absent(program):
                self.missing[program] = \
                    f"not installed; scripts/install-deps --bench installs {package}"
                continue
            inputs = [os.path.join(HERE, "peers", name) for name in (source, "measure.h")]
            compile_program(inputs, os.path.join(self.folder, program),
                            [compiler, "-std=c++20", "-O2", *WARNINGS, inputs[0], *flags])

    def binary(self, name):
        path = os.path.join(self.build, "bin", name)
        if not os.path.exists(path):
            raise Failed(f"no {path}; build it with: cmake --build {self.build} --target {name}")
        return path

    def peer(self, name):
        if name in self.missing:
            raise Failed(f"{name}: {self.missing[name]}")
        return os.path.join(self.folder, name)

    def timeout(self, sizes):
        """Generous: a minute, 10 ms for each call, and its bytes at 50 MB/s."""
        calls = sizes.iters + sizes.warmup
        return 60 + calls * sum(0.01 + size / 50e6 for size in sizes.all())
