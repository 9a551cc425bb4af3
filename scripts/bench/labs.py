"""The lab whose hosts the network cases use: made when first needed, ended with the script."""

from lab import Lab


class OneLab:
    """lab = OneLab(4); lab() is the Lab with h0..h4, unittest.SkipTest where there can be none."""

    def __init__(self, hosts):
        self.hosts, self.made, self.slurm_user = hosts, None, None

    def __call__(self):
        if self.made is None:
            self.made = Lab(self.hosts)
        return self.made

    def within_slurm(self, options, command):
        """The command in a job of an ordinary user on the lab's Slurm."""
        lab = self()
        if self.slurm_user is None:
            self.slurm_user = "bench"
            lab.user(self.slurm_user)
            lab.slurm()
        return lab.exec_argv("h0", ["salloc", "--quiet", *options, *command], user=self.slurm_user)

    def shape(self, hosts, rate):
        """Links of h1.. h<hosts> at a rate, "" as fast as they are."""
        for host in range(1, hosts + 1):
            self().rate(f"h{host}", rate or "off")

    def down(self):
        if self.made is not None:
            self.made.down()
            self.made = self.slurm_user = None
