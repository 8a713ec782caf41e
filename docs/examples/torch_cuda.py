"""torch_cuda.py: PyTorch on weir on an NVIDIA GPU, with every hook that torch offers to a pluggable allocator."""
import ctypes
import torch

path = "libweir_torch_cuda.so"
weir = torch.cuda.memory.CUDAPluggableAllocator(path, "weir_torch_cuda_malloc", "weir_torch_free")
lib = ctypes.CDLL(path)
hooks = weir.allocator()
for setter, function in {
    "set_init_fn": "weir_torch_init",
    "set_reset_fn": "weir_torch_empty_cache",
    "set_memory_fraction_fn": "weir_torch_set_memory_fraction",
    "set_base_alloc_fn": "weir_torch_base",
    "set_record_stream_fn": "weir_torch_record_stream",
    "set_begin_allocate_to_pool": "weir_torch_cuda_pool_begin",
    "set_end_allocate_to_pool_fn": "weir_torch_pool_end",
    "set_release_pool": "weir_torch_pool_release",
}.items():
    getattr(hooks, setter)(ctypes.cast(getattr(lib, function), ctypes.c_void_p).value)
torch.cuda.memory.change_current_allocator(weir)  # before the first tensor

x = torch.ones(1024, 1024, device="cuda")
for _ in range(100):
    x = (x @ x).relu() / 1024
print("%.0f" % x.sum().item())
