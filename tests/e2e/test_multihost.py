"""Jobs on three hosts over real ssh: ranks, environment, directories, shells, the carried agent."""

import os
import shutil
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import binary  # noqa: E402
from lab import LabTest  # noqa: E402

THREE = "h1:2,h2:2,h3:2"
ODD = {"A.B": "1", "BASH_FUNC_hi%%": "() {  echo hi\n}", "E": "", "U": "h\u00e9\u00e9",
       "N": "l1\nl2", "Q": "'\"`$HOME\\ !x *", "X%%": "()"}


class Multihost(LabTest):
    def test_ranks_sit_in_the_order_given(self):
        show = ["sh", "-c", "echo $HVRUN_RANK $HVRUN_SIZE $HVRUN_LOCAL_RANK $HVRUN_LOCAL_SIZE "
                            "$HVRUN_CROSS_RANK $HVRUN_CROSS_SIZE $(hostname)"]
        for _ in range(hvtest.repeats(20, 2)):
            done = self.hvrun("-np", 6, "-H", "h3:3,h1:1,h2:2", "--no-prefix", *show)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(sorted(done.out.splitlines()), [
                "0 6 0 3 0 3 h3", "1 6 1 3 0 2 h3", "2 6 2 3 0 1 h3", "3 6 0 1 1 3 h1",
                "4 6 0 2 2 3 h2", "5 6 1 2 1 2 h2"])

    def test_the_launching_host_takes_part(self):
        done = self.hvrun("-np", 3, "-H", "h0:1,h1:1,h2:1", "--no-prefix", "hostname")
        self.assertEqual((done.code, sorted(done.out.split())), (0, ["h0", "h1", "h2"]), done)

    def test_a_remote_rank_that_fails_ends_the_job_with_its_code(self):
        script = ("if [ $HVRUN_RANK = 3 ]; then sleep 0.5; echo what broke >&2; exit 7; fi; "
                  "sleep 120")
        done = self.hvrun("-np", 6, "-H", THREE, "sh", "-c", script)
        self.assertEqual(done.code, 7, done)
        self.assertLess(done.seconds, 10)
        block = done.err[done.err.rindex("hvrun: "):]
        for word in ("rank 3", "h2", "7", "what broke"):
            self.assertIn(word, block, done)

    def test_a_remote_rank_that_dies_by_a_signal(self):
        for name, number in (("SEGV", 11), ("KILL", 9), ("INT", 2)):
            done = self.hvrun("-np", 3, "-H", "h1:1,h2:1,h3:1", "sh", "-c",
                              f"[ $HVRUN_RANK = 1 ] && kill -{name} $$; sleep 60")
            self.assertEqual(done.code, 128 + number, done)
            self.assertIn(f"SIG{name}", done.err, done)
            self.assertIn("h2", done.err, done)

    def test_the_environment_arrives_byte_for_byte(self):
        folder = self.lab.file("env")
        os.makedirs(folder, exist_ok=True)
        done = self.hvrun("-np", 2, "-H", "h0:1,h1:1", "-x", "GIVEN=a b", "sh", "-c",
                          f"env -0 > {folder}/$HVRUN_RANK", env={**ODD, "PLAIN": "x"})
        self.assertEqual(done.code, 0, done)
        seen = []
        for rank in ("0", "1"):
            with open(os.path.join(folder, rank), "rb") as f:
                seen.append(dict(v.split(b"=", 1) for v in f.read().split(b"\0") if v))
        here, there = seen
        expected = {k.encode(): v.encode() for k, v in {**ODD, "PLAIN": "x", "GIVEN": "a b"}.items()}
        for name, value in expected.items():
            if name in here:  # a shell drops names that it cannot hold, on both sides
                self.assertEqual(here[name], value)
            self.assertEqual(here.get(name), there.get(name), name)
        self.assertIn(b"N", there)
        own = (b"HVRUN_", b"HOROVOD_", b"RANK", b"LOCAL_", b"GROUP_RANK", b"SSH_", b"SHLVL", b"_",
               b"PWD", b"OLDPWD", b"XDG_", b"HOSTNAME", b"MAIL", b"MOTD")
        for name in set(here) | set(there):
            if not name.startswith(own):
                self.assertEqual(here.get(name), there.get(name), name)

    def test_an_environment_larger_than_a_command_line(self):
        script = self.lab.file("with-much")
        with open(script, "w") as f:
            f.write("#!/bin/bash\nulimit -s unlimited\nvalue=$(printf %01024d 0)\n"
                    "for i in $(seq 3000); do export BIG_$i=$value; done\nexec \"$@\"\n")
        os.chmod(script, 0o755)
        code = "import os; print(sum(len(v) for k, v in os.environ.items() if k[:4] == 'BIG_'))"
        done = self.hvrun(binary("hvrun"), "-np", 2, "-H", "h1:1,h2:1", "--no-prefix",
                          "/usr/bin/python3", "-c", code, program=script)
        self.assertEqual(done.out.split(), [str(3000 * 1024)] * 2, done)

    def test_a_directory_that_a_host_lacks(self):
        self.lab.run("h0", ["mkdir", "-p", "/tmp/only here"])
        self.lab.run("h1", ["mkdir", "-p", "/tmp/only here"])
        done = self.hvrun("-np", 2, "-H", "h1:1,h2:1", "touch", "ran", cwd="/tmp/only here")
        self.assertNotEqual(done.code, 0)
        self.assertIn("h2", done.err, done)
        self.assertIn("/tmp/only here", done.err, done)
        self.assertNotIn("ran", self.lab.run("h1", ["ls", "/tmp/only here"]).stdout)
        done = self.hvrun("-np", 2, "-H", "h1:1,h2:1", "--wdir", "/tmp", "--no-prefix", "pwd",
                          cwd="/tmp/only here")
        self.assertEqual(done.out.split(), ["/tmp", "/tmp"], done)

    def test_a_program_or_interpreter_that_a_host_lacks(self):
        self.lab.run("h1", ["sh", "-c", "ln -s /bin/sh /tmp/interpreter"])
        script = self.lab.file("script")
        with open(script, "w") as f:
            f.write("#!/tmp/interpreter\nsleep 30\n")
        os.chmod(script, 0o755)
        done = self.hvrun("-np", 2, "-H", "h1:1,h2:1", script)
        self.assertEqual(done.code, 127, done)
        self.assertLess(done.seconds, 10)
        self.assertIn("h2", done.err, done)
        done = self.hvrun("-np", 2, "-H", "h1:1,h2:1", "no-such-program")
        self.assertEqual(done.code, 127, done)
        self.assertEqual(done.err.count("no-such-program"), 1, done)

    def test_names_ports_users_and_addresses_of_hosts(self):
        self.lab.alias("w.1.test", "h1")
        self.lab.alias("w.2.test", "h2")
        done = self.hvrun("-np", 2, "-H", "w.1.test:1,w.2.test:1", "--no-prefix", "hostname")
        self.assertEqual(sorted(done.out.split()), ["h1", "h2"], done)
        done = self.hvrun("-np", 2, "-H", "[fd77::1]:1,10.77.0.2:1", "--no-prefix", "hostname")
        self.assertEqual(sorted(done.out.split()), ["h1", "h2"], done)
        self.lab.user("ann")
        done = self.hvrun("-np", 2, "-H", "ann@h1:1,h2:1", "--no-prefix", "sh", "-c", "id -un")
        self.assertEqual(sorted(done.out.split()), ["ann", "root"], done)

        self.lab.sshd("h1", 2201)
        self.lab.sshd("h1", 2202)
        hostfile = self.lab.file("hosts.txt")
        with open(hostfile, "w") as f:
            f.write("h1 slots=1 port=2201\nh1 slots=2 port=2202\n")
        done = self.hvrun("-np", 3, "--hostfile", hostfile, "--no-prefix", "sh", "-c",
                          "echo $HVRUN_RANK $HVRUN_LOCAL_RANK ${SSH_CONNECTION##* }")
        self.assertEqual(sorted(done.out.splitlines()), ["0 0 2201", "1 0 2202", "2 1 2202"], done)
        done = self.hvrun("-np", 1, "-H", "h1:1", "-p", 2202, "--no-prefix", "sh", "-c",
                          "echo ${SSH_CONNECTION##* }")
        self.assertEqual(done.out.split(), ["2202"], done)

    def test_any_login_shell_and_what_login_scripts_print(self):
        shells = [s for s in ("/bin/dash", "/bin/tcsh", "/usr/bin/fish", "/usr/bin/zsh")
                  if os.path.exists(s)]
        for shell in shells:
            name = os.path.basename(shell)
            self.lab.user(name + "er", shell)
            home = self.lab.home(name + "er")
            os.makedirs(f"{home}/.config/fish", exist_ok=True)
            for rc in (".cshrc", ".zshenv", ".config/fish/config.fish"):
                with open(os.path.join(home, rc), "w") as f:
                    f.write("echo 'Welcome! $5 per \"hour\"'\n")
            subprocess.run(["chown", "-R", f"{os.stat(home).st_uid}", home], check=True)
        with open(os.path.join(self.lab.home(), ".bashrc"), "w") as f:
            f.write("printf 'no newline at the end'\n")
        users = [os.path.basename(s) + "er@h1:1" for s in shells]
        try:
            done = self.hvrun("-np", len(users) + 1, "-H", ",".join(users + ["h2:1"]),
                              "--no-prefix", "/usr/bin/python3", "-c",
                              "import os; print([os.environ.get(k) for k in 'EUNQ'])", env=ODD)
        finally:
            os.remove(os.path.join(self.lab.home(), ".bashrc"))
        expected = str([ODD[k] for k in "EUNQ"])
        self.assertEqual(done.out.splitlines(), [expected] * (len(users) + 1), done)
        self.assertGreaterEqual(len(shells), 4, "install tcsh, fish and zsh to test all shells")

    def test_an_ordinary_user_needs_no_root_anywhere(self):
        self.lab.user("bob")
        folder = self.lab.file("bin")
        os.makedirs(folder, exist_ok=True)
        for name in ("hvrun", "hvagent"):
            shutil.copy(binary(name), folder)
        done = self.hvrun("-np", 4, "-H", "h0:1,h1:2,h2:1", "--no-prefix", "sh", "-c",
                          "id -un; test ! -w /etc", user="bob",
                          program=os.path.join(folder, "hvrun"))
        self.assertEqual((done.code, done.out.split()), (0, ["bob"] * 4), done)

    def test_no_token_crosses_the_switch_or_shows_in_a_command_line(self):
        token = "tok-5f0c1d7e"
        record = self.lab.file("record.pcap")
        self.lab.capture(record)
        job = self.lab.popen("h0", [binary("hvrun"), "--verbose", "-np", "4", "-H", "h1:2,h2:2",
                                    "-x", "MARK_IT", "sh", "-c", "sleep 1; exit 0"],
                             env={"API_TOKEN": token, "MARK_IT": "plain"})
        lines = []
        while job.poll() is None:
            lines += [command for _, _, command in self.lab.processes()]
        _, err = job.communicate()
        self.lab.capture("stop")
        self.assertEqual(job.returncode, 0, err)
        self.assertTrue(any("sleep 1" in line for line in lines))
        self.assertFalse([line for line in lines if token in line])
        self.assertNotIn(token, err)
        with open(record, "rb") as f:
            bytes_seen = f.read()
        self.assertGreater(len(bytes_seen), 10_000)
        for secret in (token, "API_TOKEN", "MARK_IT", "HVRUN_SECRET"):
            self.assertNotIn(secret.encode(), bytes_seen)

    def test_a_launch_agent_instead_of_ssh(self):
        script = self.lab.file("reach")
        with open(script, "w") as f:
            f.write(f"#!/bin/sh\npid=$(cat {self.lab.dir}/$1/pid)\nshift\n"
                    "exec nsenter -t $pid -n -u -i -m -p \"$@\"\n")
        os.chmod(script, 0o755)
        # From outside of the lab: no host can connect back, so all goes through the stream.
        done = hvtest.run_hvrun("--launch-agent", script, "-np", "4", "-H", "h1:2,h2:2",
                                "--no-prefix", "sh", "-c", "hostname; sleep 1; [ $HVRUN_RANK != 2 ] || exit 5; sleep 30")
        self.assertEqual(done.code, 5, done)
        self.assertIn("h2", done.err, done)
        self.expect_quiet(5)
        done = hvtest.run_hvrun("--launch-agent", "/no/such/program", "-np", "1", "-H", "h1:1",
                                "true")
        self.assertNotEqual(done.code, 0)
        self.assertIn("/no/such/program", done.err, done)


class Firewall(LabTest):
    HOSTS = 2

    def test_ports_stay_in_the_range_that_is_open(self):
        for host in ("h0", "h1", "h2"):
            self.lab.firewall(host, 22, "31000-31015")
        where = ("--verbose", "-np", 8, "-H", "h1:4,h2:4", "--port-range")
        bench = (binary("hvbench"), "allreduce", "--min-bytes", "1M", "--max-bytes", "1M",
                 "--iters", 2)
        done = self.hvrun(*where, "31000-31015", *bench)
        self.assertEqual(done.code, 0, done)
        self.assertIn("by 10.77", done.err, done)  # over TCP, not over ssh's stream
        done = self.hvrun(*where, "31000-31003", *bench)
        self.assertEqual(done.code, 2, done)
        self.assertIn("h1 needs 5", done.err)
        self.assertLess(done.seconds, 5)
        # Ranks that cannot reach each other say so.
        done = self.hvrun(*where[:-1], *bench)
        self.assertNotEqual(done.code, 0, done)
        self.assertRegex(done.err, "does not answer", done)
        self.assertLess(done.seconds, 30)

    def test_only_ssh_gets_through(self):
        for host in ("h0", "h1", "h2"):
            self.lab.firewall(host, 22)
        done = self.hvrun("--verbose", "-np", 4, "-H", "h1:2,h2:2", "--no-prefix", "sh", "-c",
                          "hostname; sleep 1; [ $HVRUN_RANK != 3 ] || exit 9; sleep 30")
        self.assertEqual(done.code, 9, done)
        self.assertEqual(sorted(done.out.split()), ["h1", "h1", "h2", "h2"])
        self.assertNotIn("by 10.77", done.err, done)
        self.assertLess(done.seconds, 12)


class CarriedAgent(LabTest):
    """hvrun sits where the other hosts have nothing: h0's own /tmp."""

    HOSTS = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.run("h0", ["sh", "-c", "mkdir /tmp/own; cp \"$0\" \"$1\" /tmp/own/",
                           binary("hvrun"), binary("hvagent")])

    def run_own(self, *args, **options):
        return self.hvrun(*args, program="/tmp/own/hvrun", **options)

    def files(self, host):
        return self.lab.run(host, ["sh", "-c", "ls -d /tmp/hvrun* /dev/shm/hvrun* /var/tmp/hvrun* "
                                               "/tmp/.* ~/hvrun* ~/.cache/hvrun* 2>/dev/null"])

    def test_it_is_carried_over_and_leaves_nothing(self):
        done = self.run_own("-np", 4, "-H", "h1:2,h2:2", "--no-prefix", "sh", "-c",
                            "ls -d /tmp/hvrun*; hostname")
        self.assertEqual((done.code, sorted(done.out.split())), (0, ["h1", "h1", "h2", "h2"]), done)
        for host in ("h1", "h2"):
            self.assertNotIn("hvrun", self.files(host).stdout)

    def test_another_build_at_the_same_path_is_not_used(self):
        fake = "mkdir -p /tmp/own; printf '#!/bin/sh\\necho hvagent 0.0-other\\n' > /tmp/own/hvagent; " \
               "chmod 755 /tmp/own/hvagent"
        self.lab.run("h1", ["sh", "-c", fake])
        done = self.run_own("-np", 2, "-H", "h1:1,h2:1", "--no-prefix", "hostname")
        self.lab.run("h1", ["rm", "-r", "/tmp/own"])
        self.assertEqual((done.code, sorted(done.out.split())), (0, ["h1", "h2"]), done)

    def test_places_that_do_not_execute_are_passed_over(self):
        self.lab.run("h1", ["mount", "-o", "remount,noexec", "/tmp"])
        try:
            done = self.run_own("-np", 1, "-H", "h1:1", "--no-prefix", "hostname")
            self.assertEqual((done.code, done.out), (0, "h1\n"), done)
        finally:
            self.lab.run("h1", ["mount", "-o", "remount,exec", "/tmp"])

    def test_no_place_left_is_a_clear_error(self):
        # All places on one full file system: only what the user may write to counts.
        self.lab.user("cho")
        self.lab.run("h1", ["sh", "-c",
                            "mkdir /tmp/full; mount -t tmpfs -o size=64k,mode=1777 tmpfs /tmp/full; "
                            "for d in /var/tmp /dev/shm " + self.lab.home("cho") +
                            "; do mount --bind /tmp/full $d; done; "
                            "mount -o remount,noexec /tmp"])
        try:
            key = os.path.join(self.lab.home(), ".ssh", "authorized_keys")
            self.lab.run("h1", ["sh", "-c", f"mkdir -p {self.lab.home('cho')}/.ssh; "
                                            f"cp {key} {self.lab.home('cho')}/.ssh/; "
                                            f"chown -R cho {self.lab.home('cho')}/.ssh"])
            done = self.run_own("-np", 2, "-H", "cho@h1:1,h2:1", "true")
        finally:
            self.lab.run("h1", ["sh", "-c", f"umount /var/tmp /dev/shm {self.lab.home('cho')} "
                                            "/tmp/full; mount -o remount,exec /tmp"])
        self.assertNotEqual(done.code, 0)
        for word in ("h1", "full", "noexec", "/dev/shm"):
            self.assertIn(word, done.err, done)


if __name__ == "__main__":
    hvtest.main()
