"""Lab: a lab of this test's own, which ends with the test, however that ends."""

import os
import re
import subprocess
import tempfile
import time
import unittest

from hvtest import TREE, Done, Patience, binary

LAB = os.path.join(TREE, "tests", "lab", "lab")


class Lab:
    """lab = Lab(3); lab.run("h0", ["hostname"]); lab.kill("h2"); lab.down()"""

    def __init__(self, hosts):
        check = subprocess.run([LAB, "check"], capture_output=True, text=True)
        if check.returncode == 77:
            raise unittest.SkipTest(check.stderr.strip())
        self.dir = tempfile.mkdtemp(prefix="hvlab-")
        os.rmdir(self.dir)
        self.environment = {**os.environ, "LAB_DIR": self.dir}
        # The lab lives as long as our end of this pipe is open.
        read_end, self.hold = os.pipe()
        try:
            self.lab("up", str(hosts), "--hold", stdin=read_end)
        finally:
            os.close(read_end)

    def lab(self, *arguments, **options):
        """One command of tests/lab/lab; its output. A failure is an AssertionError."""
        result = subprocess.run([LAB, *arguments], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                **{"stdin": subprocess.DEVNULL, **options})
        if result.returncode != 0:
            raise AssertionError(f"lab {' '.join(arguments)}: {result.stderr}")
        return result.stdout

    def __getattr__(self, name):
        """lab.kill("h1"), lab.rate("h1", "1gbit"), lab.sshd("h1", 2201, "MaxStartups=3") ..."""
        if name not in ("boot", "kill", "cut", "heal", "rate", "firewall", "sshd", "user", "alias",
                        "capture", "slurm"):
            raise AttributeError(name)
        return lambda *arguments: self.lab(name, *map(str, arguments))

    def exec_argv(self, host, argv, user="root", cwd=None):
        place = ["-C", cwd] if cwd else []
        return [LAB, "exec", "-u", user, *place, host, *argv]

    def run(self, host, argv, user="root", cwd=None, env=None, **options):
        """Like subprocess.run on a host; output captured, 60 s at most."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True,
                   "stderr": subprocess.PIPE, "timeout": 60, **options}
        return subprocess.run(self.exec_argv(host, argv, user, cwd),
                              env={**self.environment, **(env or {})}, **options)

    def popen(self, host, argv, user="root", cwd=None, env=None, **options):
        """Like subprocess.Popen; signals sent to it reach the command, and so does its death."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True,
                   "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(self.exec_argv(host, argv, user, cwd),
                                env={**self.environment, **(env or {})}, **options)

    def processes(self, pattern="", host=None):
        """[(host, pid as seen from here, command)] that match, without the lab's own."""
        lines = self.lab("ps", *([host] if host else [])).splitlines()
        split = [line.split(" ", 2) for line in lines]
        return [(h, int(p), c) for h, p, c in split if re.search(pattern, c)]

    def wait_for_processes(self, pattern, count, seconds=10, host=None):
        """Waits until exactly `count` processes match; what there is in the end."""
        patience = Patience(seconds)
        while True:
            found = self.processes(pattern, host)
            if len(found) == count or patience.over():
                return found
            time.sleep(0.05)

    def file(self, *parts):
        """A path that all hosts share."""
        return os.path.join(self.dir, *parts)

    def home(self, user="root"):
        return self.file("home", user)

    def down(self):
        if self.hold is not None:
            os.close(self.hold)
            self.hold = None
            self.lab("down")


class LabTest(unittest.TestCase):
    """One lab for all tests of a class."""

    HOSTS = 3
    lab = None

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(cls.HOSTS)
        cls.addClassCleanup(cls.lab.down)

    def hvrun(self, *args, program=None, timeout=180, **options):
        """Runs hvrun on h0 to its end, in a folder that all hosts share; what it has left. Nothing of
        the job may stay anywhere."""
        options.setdefault("cwd", self.lab.dir)
        start = time.monotonic()
        process = self.lab.popen("h0", [program or binary("hvrun"), *map(str, args)], text=False,
                                 **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            _, err = process.communicate()
            self.fail(f"hvrun still runs after {timeout} s: {args}\n{err.decode()}")
        done = Done(process.returncode, out, err, time.monotonic() - start)
        self.expect_quiet(2)
        return done

    def hide(self, host, path, own):
        """Another file or folder at that place, on that host only, until the test ends."""
        done = self.lab.run(host, ["mount", "--bind", own, path])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.lab.run, host, ["umount", path])

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, mode)

    def add_roce_card(self, host, index):
        """A pretend card, mlx5_0, whose only good GID has this index; nothing else is in /sys/class."""
        port = self.lab.file(f"{host}-class", "infiniband", "mlx5_0", "ports", "1")
        for name, text in {
                "link_layer": "Ethernet", "state": "4: ACTIVE", "phys_state": "5: LinkUp",
                "rate": "100 Gb/sec (4X EDR)", "lid": "0x0", "sm_lid": "0x0",
                f"gids/{index}": "0000:0000:0000:0000:0000:ffff:0a4d:0001",
                f"gid_attrs/types/{index}": "RoCE v2", f"gid_attrs/ndevs/{index}": "eth0"}.items():
            self.write(os.path.join(port, name), text + "\n")
        self.hide(host, "/sys/class", self.lab.file(f"{host}-class"))

    def expect_quiet(self, seconds, pattern=""):
        """Within that time no process that matches is left on any living host."""
        left = self.lab.wait_for_processes(pattern, 0, seconds)
        for _, pid, _ in left:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.assertEqual(left, [], f"left running after {seconds} s")
