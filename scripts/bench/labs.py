"""The lab whose hosts the network cases use: made when first needed, ended with the script."""

from lab import Lab


class OneLab:
    """lab = OneLab(4); lab() is the Lab with h0..h4, unittest.SkipTest where there can be none."""

    def __init__(self, hosts):
        self.hosts, self.made = hosts, None

    def __call__(self):
        if self.made is None:
            self.made = Lab(self.hosts)
        return self.made

    def shape(self, hosts, rate):
        """Links of h1.. h<hosts> at a rate, "" as fast as they are."""
        for host in range(1, hosts + 1):
            self().rate(f"h{host}", rate or "off")

    def down(self):
        if self.made is not None:
            self.made.down()
            self.made = None
