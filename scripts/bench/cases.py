"""The cases: what is measured, against whom, and how good it has to be."""

import idle
from measuring import KIB, MIB, Bar, Case, Sizes, memory_limit_us, wire_limit_us
from programs import Place

SMALL = Sizes(8, 64 * KIB, iters=1000, warmup=100)
LARGE = (Sizes(256 * KIB, 4 * MIB, iters=100, warmup=10),
         Sizes(8 * MIB, 64 * MIB, iters=15, warmup=3))
ONE = (Sizes(4, 4, iters=2000, warmup=200),)

MPI = ("openmpi", "mpich")
RESNET50_BYTES = 25_557_032 * 4
GIGABIT = 1e9

# Horovod 0.28.1 with PyTorch 1.13 over Gloo on two cores (AMD EPYC, AVX-512, 32 MB L3), the 161
# gradients of ResNet-50: 86 ms with two ranks, 434 ms with four. Not in Debian, so not run here.
HOROVOD_RESNET50_US = {2: 86_000, 4: 434_000}


def constant(value):
    return lambda sizes: {size: value for size in sizes.all()}


def mapped(series, function):
    """A series whose values are function(bytes, value) of another's."""
    return lambda sizes: {size: function(size, value) for size, value in series(sizes).items()}


def at_same_count(series, factor):
    """For messages of elements `factor` times as large; told by the bytes of the small ones."""
    return lambda sizes: {size // factor: us for size, us in series(sizes.scaled(factor)).items()}


def make_cases(programs, lab):
    def here(ranks):
        return Place(programs, ranks)

    def across(hosts, per_host):
        return Place(programs, hosts * per_host, lab, hosts)

    return [*shared_memory_cases(here), *half_cases(here(2)),
            *[oversubscribed_case(here(ranks)) for ranks in (4, 8)],
            tcp_case(across(2, 1)), *[shaped_case(*a, across) for a in ((2, 2), (4, 16))],
            *[fused_case(here(ranks)) for ranks in (2, 4)],
            Case("names", "1,000 named 4-byte tensors per step, 4 ranks",
                 (Sizes(4000, 4000, iters=200, warmup=20),),
                 {"hvrun": here(4).hvbench_once(4000, "--tensors", "1000", "--min-bytes", "4",
                                                 "--max-bytes", "4")},
                 (Bar("hvrun", 2000),)),
            Case("latency", "named 4-byte allreduce, 2 ranks, one host", ONE,
                 {"hvrun": here(2).hvbench(raw=False)}, (Bar("hvrun", 20),)),
            Case("idle-wakeups", "nothing pending for 10 s, 2 ranks", ONE,
                 {"hvrun": idle.wake_ups(here(2))}, (Bar("hvrun", 0),), unit="wake-ups"),
            Case("idle-cpu", "nothing pending for 10 s, 2 ranks", ONE,
                 {"hvrun": idle.cpu_percent(here(2))}, (Bar("hvrun", 0.1),), unit="% CPU")]


def shared_memory_cases(here):
    two = here(2)
    peers = {"openmpi": two.openmpi(), "mpich": two.mpich()}
    private = two.hvbench("--buffer", "private")
    alloc = two.hvbench("--buffer", "alloc")
    copying = mapped(two.copy_gbs(), memory_limit_us)
    return [
        Case("shm2", "raw, 2 ranks on one host, float32, private buffers", LARGE,
             {"hvrun": private, **peers}, (Bar("hvrun", 0.75, MPI),)),
        Case("shm2-alloc", "raw, 2 ranks on one host, float32, hv::alloc buffers", LARGE,
             {"hvrun": alloc, **peers, "4S/copy": copying},
             (Bar("hvrun", 0.4, MPI), Bar("hvrun", 1 / 0.75, ("4S/copy",), low=64 * MIB))),
        Case("shm2-small", "raw, 2 ranks on one host, float32, small", (SMALL,),
             {"hvrun": private, **peers}, (Bar("hvrun", 1.1, MPI),)),
    ]


def half_cases(two):
    sizes = (Sizes(1 * MIB, 4 * MIB, iters=100, warmup=10),
             Sizes(8 * MIB, 64 * MIB, iters=15, warmup=3))
    return [Case(f"half-{dtype}", f"raw, 2 ranks on one host, {dtype} against float32", sizes,
                 {"hvrun": two.hvbench("--dtype", dtype),
                  "float32": at_same_count(two.hvbench("--dtype", "float32"), 2)},
                 (Bar("hvrun", 0.6, ("float32",)),)) for dtype in ("float16", "bfloat16")]


def oversubscribed_case(place):
    sizes = (Sizes(8, 32 * KIB, iters=200, warmup=20), Sizes(64 * KIB, 2 * MIB, iters=50, warmup=5),
             Sizes(4 * MIB, 16 * MIB, iters=15, warmup=3))
    return Case(f"oversub{place.ranks}", f"raw, {place.ranks} ranks on one host, float32", sizes,
                {"hvrun": place.hvbench("--buffer", "private"),
                 "hvrun alloc": place.hvbench("--buffer", "alloc"), "openmpi": place.openmpi()},
                (Bar("hvrun", 1.2, ("openmpi",), high=32 * KIB),
                 Bar("hvrun alloc", 1.2, ("openmpi",), high=32 * KIB),
                 Bar("hvrun", 0.85, ("openmpi",), low=64 * KIB),
                 Bar("hvrun alloc", 0.6, ("openmpi",), low=64 * KIB)))


def tcp_case(place):
    sizes = (Sizes(8, 32 * KIB, iters=500, warmup=50), Sizes(64 * KIB, 4 * MIB, iters=60, warmup=6),
             Sizes(8 * MIB, 64 * MIB, iters=12, warmup=2))
    gloo = ("gloo ring", "gloo bcube")
    return Case("tcp2", "raw, 2 hosts with 1 rank each, TCP", sizes,
                {"hvrun": place.hvbench(), "openmpi": place.openmpi(),
                 "gloo ring": place.gloo("ring"), "gloo bcube": place.gloo("bcube")},
                (Bar("hvrun", 1.1, ("openmpi",), high=32 * KIB),
                 Bar("hvrun", 1.05, ("openmpi", *gloo), low=64 * KIB),
                 Bar("hvrun", 0.85, gloo, low=64 * KIB)), hosts=2)


def shaped_case(hosts, low_mib, across):
    place = across(hosts, 2)
    return Case(f"shaped-{hosts}x2", f"raw, {hosts} hosts with 2 ranks each, links of 1 Gbit/s",
                (Sizes(low_mib * MIB, 64 * MIB, iters=5, warmup=1),),
                {"hvrun": place.hvbench(), "openmpi": place.openmpi(), "gloo ring": place.gloo(),
                 "wire limit": lambda sizes: {size: wire_limit_us(size, hosts, GIGABIT)
                                              for size in sizes.all()}},
                (Bar("hvrun", 1.08, ("wire limit",)),), hosts=hosts, rate="1gbit")


def fused_case(place):
    sizes = Sizes(RESNET50_BYTES, RESNET50_BYTES, iters=15, warmup=3)
    horovod = constant(HOROVOD_RESNET50_US[place.ranks])
    bars = [Bar("hvrun", 0.2, ("Horovod 0.28.1",))]
    if place.ranks == 2:
        bars.insert(0, Bar("hvrun", 1.15, ("one buffer",)))
    return Case(f"fused-{place.ranks}", f"161 gradients of ResNet-50, named, {place.ranks} ranks",
                (sizes,),
                {"hvrun": place.hvbench_once(RESNET50_BYTES, "--model", "resnet50"),
                 "one buffer": place.hvbench(), "Horovod 0.28.1": horovod}, tuple(bars))
