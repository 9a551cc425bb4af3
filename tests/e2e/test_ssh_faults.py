"""What goes wrong on the way to the hosts: one report, in time, with what to do; never a prompt."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import binary  # noqa: E402
from lab import LabTest  # noqa: E402


class SshFaults(LabTest):
    HOSTS = 6

    def ssh_file(self, name, user="root"):
        return os.path.join(self.lab.home(user), ".ssh", name)

    def with_file(self, name, text, user="root"):
        """Replaces a file of ~/.ssh until the end of the test."""
        path = self.ssh_file(name, user)
        if os.path.exists(path):
            shutil.copy(path, path + ".kept")
            self.addCleanup(os.replace, path + ".kept", path)
        else:
            self.addCleanup(os.remove, path)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o600)
        os.chown(path, *(lambda s: (s.st_uid, s.st_gid))(os.stat(self.lab.home(user))))

    def known_hosts(self):
        with open(self.ssh_file("known_hosts")) as f:
            return f.read()

    def on_terminal(self, argv):
        """Runs on h0 with a terminal; (exit code, all that it showed, seconds)."""
        start = time.monotonic()
        parent, child = pty.openpty()
        job = subprocess.Popen(self.lab.exec_argv("h0", argv), env=self.lab.environment,
                               stdin=child, stdout=child, stderr=child, start_new_session=True)
        os.close(child)
        shown = b""
        while time.monotonic() - start < 30:
            if select.select([parent], [], [], 0.1)[0]:
                try:
                    shown += os.read(parent, 65536)
                except OSError:
                    break
            elif job.poll() is not None:
                break
        code = job.poll() if job.poll() is not None else job.wait(timeout=5)
        os.close(parent)
        return code, shown.decode(errors="replace"), time.monotonic() - start

    def test_an_account_without_a_key(self):
        self.lab.user("dan")
        self.with_file("authorized_keys", "# nobody\n", user="dan")
        done = self.hvrun("-np", 2, "-H", "dan@h1:1,h2:1", "true")
        self.assertGreater(done.code, 70, done)
        self.assertLess(done.seconds, 10)
        for word in ("h1", "authentication", "dan", "ssh dan@h1 true"):
            self.assertIn(word, done.err, done)
        code, shown, seconds = self.on_terminal([binary("hvrun"), "-np", "1", "-H", "dan@h1:1", "true"])
        self.assertGreater(code, 70)
        self.assertLess(seconds, 10)
        self.assertNotRegex(shown, "(?i)password:")
        self.expect_quiet(1)

    def test_a_key_behind_a_passphrase_is_not_asked_for(self):
        key = self.lab.file("locked")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", key], check=True)
        code, shown, seconds = self.on_terminal(
            [binary("hvrun"), "-i", key, "-np", "1", "-H", "h1:1", "true"])
        self.assertGreater(code, 70)
        self.assertLess(seconds, 10)
        self.assertIn("passphrase", shown)  # named as a reason, not asked for
        self.assertNotRegex(shown, "(?i)enter passphrase")

    def test_a_key_that_only_the_agent_has(self):
        socket = self.lab.file("agent.sock")
        agent = self.lab.popen("h0", ["ssh-agent", "-D", "-a", socket])
        self.addCleanup(lambda: (agent.terminate(), agent.communicate(timeout=10)))
        hvtest.wait_until(lambda: os.path.exists(socket), 5, "ssh-agent")
        add = f"SSH_AUTH_SOCK={socket} ssh-add {self.ssh_file('id_ed25519')}"
        self.assertEqual(self.lab.run("h0", ["sh", "-c", add]).returncode, 0)
        hidden = self.ssh_file("id_ed25519")
        os.rename(hidden, hidden + ".away")
        try:
            script = f"SSH_AUTH_SOCK={socket} exec {binary('hvrun')} -np 1 -H h1:1 --no-prefix hostname"
            by_variable = self.lab.run("h0", ["sh", "-c", script])
            self.with_file("config", f"Host *\n  IdentityAgent {socket}\n")
            by_config = self.lab.run("h0", [binary("hvrun"), "-np", "1", "-H", "h1:1", "--no-prefix",
                                            "hostname"])
        finally:
            os.rename(hidden + ".away", hidden)
        self.assertEqual(by_variable.stdout, "h1\n", by_variable.stderr)
        self.assertEqual(by_config.stdout, "h1\n", by_config.stderr)

    def test_an_unknown_host_key(self):
        self.with_file("known_hosts", "")
        done = self.hvrun("-np", 2, "-H", "h1:1,h2:1", "true")
        self.assertGreater(done.code, 70, done)
        self.assertLess(done.seconds, 10)
        for word in ("h1", "h2", "host key", "SHA256:", "ssh h1 true"):
            self.assertIn(word, done.err, done)
        self.assertEqual(self.known_hosts(), "")
        code, shown, _ = self.on_terminal([binary("hvrun"), "-np", "1", "-H", "h1:1", "true"])
        self.assertGreater(code, 70)
        self.assertNotIn("yes/no", shown)
        self.expect_quiet(1)

    def test_a_changed_host_key(self):
        with open(self.lab.file("h2", "hostkey.pub")) as f:
            other = " ".join(f.read().split()[:2])
        mine = re.sub(r"(?m)^h1,.*$", f"h1 {other}", self.known_hosts())
        self.with_file("known_hosts", mine)
        for option in ([], ["--ssh-option", "StrictHostKeyChecking=accept-new"]):
            done = self.hvrun(*option, "-np", 2, "-H", "h1:1,h2:1", "true")
            self.assertGreater(done.code, 70, done)
            for word in ("h1", "changed", "ssh-keygen", "known_hosts:"):
                self.assertIn(word, done.err, done)

    def test_keys_that_ssh_would_take(self):
        self.with_file("known_hosts", self.known_hosts())
        path = self.ssh_file("known_hosts")
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
        os.remove(path + ".old")
        self.assertNotIn("h1,", self.known_hosts())
        done = self.hvrun("-np", 1, "-H", "h1:1", "--no-prefix", "hostname")
        self.assertEqual(done.out, "h1\n", done)

        with open(path, "w"):
            pass
        option = ["--ssh-option", "StrictHostKeyChecking=accept-new"]
        done = self.hvrun(*option, "-np", 2, "-H", "h1:1,h2:1", "true")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(line.split()[0] for line in self.known_hosts().splitlines()),
                         ["h1", "h2"])
        self.assertEqual(self.hvrun("-np", 1, "-H", "h1:1", "true").code, 0)

    def test_six_hosts_of_which_four_are_bad(self):
        """h2 and h3 do not answer, h4 refuses, one name is unknown."""
        self.lab.cut("h2")
        self.lab.firewall("h3", 9)
        with open(self.lab.file("h4", "sshd-22.pid")) as f:
            sshd = f.read().strip()
        self.lab.run("h4", ["kill", sshd])
        try:
            done = self.hvrun("--ssh-option", "ConnectTimeout=4", "-np", 6, "-H",
                              "h1:1,h2:1,h3:1,h4:1,no-such-host:1,h5:1", "touch",
                              self.lab.file("started"))
        finally:
            self.lab.heal("h2")
            self.lab.firewall("h3", "off")
            self.lab.kill("h4")
            self.lab.boot("h4")
        self.assertGreater(done.code, 70, done)
        self.assertLess(done.seconds, 4 + 8, done)
        self.assertFalse(os.path.exists(self.lab.file("started")))
        lines = done.err.splitlines()
        for host, reason in (("h2", "timeout"), ("h3", "timeout"), ("h4", "refused"),
                             ("no-such-host", "name lookup")):
            self.assertTrue(any(host in line and reason in line for line in lines), (host, done))
        self.assertFalse([line for line in lines if re.search(r"\bh[15]\b.*(timeout|refused)", line)])

    def test_a_server_that_takes_one_connection_only(self):
        self.lab.sshd("h1", 2200, "--once")
        # Its key is known, but for port 22; ssh takes that, too.
        done = self.hvrun("-np", 2, "-H", "h1:2", "-p", 2200, "--no-prefix", "hostname")
        self.assertEqual((done.code, done.out), (0, "h1\nh1\n"), done)

    def test_a_server_that_sheds_load(self):
        self.lab.sshd("h6", 2300, "MaxStartups=3:50:6")
        names = [f"many{i}" for i in range(24)]
        for name in names:
            self.lab.alias(name, "h6")
        hosts = ",".join(f"{name}:1" for name in names)
        for _ in range(hvtest.repeats(20, 1)):
            done = self.hvrun("-np", 24, "-H", hosts, "-p", 2300, "--no-prefix", "hostname")
            self.assertEqual((done.code, done.out), (0, "h6\n" * 24), done)
        with open(self.lab.file("h6", "sshd-2300.log")) as f:
            self.assertRegex(f.read(), "(?i)drop connection|past MaxStartups|beginning MaxStartups")

    def test_a_jump_host_and_aliases_of_the_configuration(self):
        self.with_file("config", "Host inner\n  HostName h3\n  ProxyJump h1\n"
                                 "Host nick\n  HostName h2\n  Port 2401\n")
        self.lab.sshd("h2", 2401)
        done = self.hvrun("-np", 2, "-H", "inner:1,nick:1", "--no-prefix", "sh", "-c",
                          "set -- $SSH_CONNECTION; echo $(hostname) $1 $4")
        self.assertEqual(done.code, 0, done)
        found = dict((line.split()[0], line.split()[1:]) for line in done.out.splitlines())
        self.assertIn(found["h3"][0], ("10.77.0.1", "fd77::1"))
        self.assertEqual(found["h2"][1], "2401")

    def test_a_jump_host_that_sheds_load(self):
        self.lab.sshd("h5", 2500, "MaxStartups=2:60:4")
        names = [f"behind{i}" for i in range(8)]
        for name in names:
            self.lab.alias(name, "h2")
        self.with_file("config", "Host behind*\n  ProxyJump gate\nHost gate\n  HostName h5\n"
                                 "  Port 2500\n  StrictHostKeyChecking no\n")
        done = self.hvrun("-np", 8, "-H", ",".join(f"{name}:1" for name in names), "--no-prefix",
                          "hostname")
        self.assertEqual((done.code, done.out), (0, "h2\n" * 8), done)

    def test_a_jump_host_without_the_client(self):
        self.with_file("config", "Host inner\n  HostName h3\n  ProxyJump h1\n")
        done = self.hvrun("-c", 'PATH=/nowhere exec "$@"', "sh", binary("hvrun"), "-np", 1, "-H",
                          "inner:1", "/bin/true", program="/bin/sh")
        self.assertGreater(done.code, 70, done)
        for word in ("inner", "ssh", "proxyjump"):
            self.assertIn(word, done.err, done)

    def test_no_ssh_is_needed_for_this_machine(self):
        def without_path(*args):
            return self.hvrun("-c", 'PATH=/nowhere exec "$@"', "sh", binary("hvrun"), *args,
                              program="/bin/sh")
        for hosts in ("localhost:2", "h0:2", "10.77.0.100:2", "[fd77::100]:2", "127.0.0.1:2"):
            done = without_path("-np", 2, "-H", hosts, "--no-prefix", "/bin/hostname")
            self.assertEqual((done.code, done.out), (0, "h0\nh0\n"), done)
        # Nor is there need for the client to reach others.
        done = without_path("-np", 1, "-H", "h1:1", "--no-prefix", "/bin/hostname")
        self.assertEqual((done.code, done.out), (0, "h1\n"), done)


if __name__ == "__main__":
    hvtest.main()
