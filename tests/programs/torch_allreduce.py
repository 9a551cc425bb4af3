"""A PyTorch program as it stands in tutorials: knows RANK, WORLD_SIZE and env:// only."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("sum", int(value.item()), "of", dist.get_world_size())
dist.destroy_process_group()
