// Checks the pack kernels on whatever device the driver has, and times them against its own copies.
//   gpu_device_check [--quick]     --quick: the results only
// Exit code 0 right, 1 wrong, 77 no device, with the reason.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "apps/hvbench/models.h"
#include "runtime/backend/nccl/device.h"
#include "runtime/backend/nccl/plan.h"

namespace {

using namespace hv;
using runtime::nccl::Address;
using runtime::nccl::Device;
using runtime::nccl::kBlockBytes;
using runtime::nccl::kMaxPieces;
using runtime::nccl::kPlace;
using runtime::nccl::PackArgs;

void need(const base::Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "gpu_device_check: %s\n", result.error().text.c_str());
  std::exit(1);
}

struct Memory {
  Memory(Device& device, std::size_t bytes) {
    auto made = device.allocate(bytes + kPlace);
    if (!made) need(base::fail(made.error()));
    held = *made;
    address = (reinterpret_cast<Address>(held.get()) + kPlace - 1) / kPlace * kPlace;
  }
  std::byte* at(std::size_t offset) const { return reinterpret_cast<std::byte*>(address + offset); }
  std::shared_ptr<void> held;
  Address address = 0;
};

void synchronize(Device& device) {
  const Device::Current current(device);
  need(device.checked(device.api().StreamSynchronize(device.stream()), "cuStreamSynchronize"));
}

// Tensors of these counts, `skip` bytes behind an aligned place each.
struct Layout {
  Layout(const std::vector<std::int64_t>& counts, std::size_t element, std::size_t wire,
         std::size_t skip) {
    for (std::int64_t count : counts) {
      const auto n = static_cast<std::size_t>(count);
      tensors.push_back({n, tensor_bytes + skip, wire_bytes});
      tensor_bytes += (n * element + skip + 2 * kPlace - 1) / kPlace * kPlace;
      wire_bytes += (n * wire + kPlace - 1) / kPlace * kPlace;
    }
    per_block = kBlockBytes / element;
  }
  struct Tensor {
    std::size_t count, offset, place;
  };
  std::vector<Tensor> tensors;
  std::size_t tensor_bytes = 0, wire_bytes = 0, per_block = 0;

  void run(Device& device, const char* kernel, const Memory& memory, const Memory& buffer,
           bool unpack, double scale) const {
    const Device::Current current(device);
    for (std::size_t first = 0; first < tensors.size(); first += kMaxPieces) {
      PackArgs args{};
      args.buffer = buffer.address;
      args.scale = scale;
      args.unpack = unpack ? 1 : 0;
      unsigned blocks = 0;
      for (; args.pieces < kMaxPieces && first + args.pieces < tensors.size(); ++args.pieces) {
        const Tensor& t = tensors[first + args.pieces];
        args.piece[args.pieces] = {memory.address + t.offset, t.count,
                                   static_cast<unsigned>(t.place / kPlace), blocks};
        blocks += static_cast<unsigned>((t.count + per_block - 1) / per_block);
      }
      need(device.launch(kernel, args, blocks));
    }
  }
};

// Whole numbers up to 99 stay exact in every type and scale used here.
template <class T, class From, class To>
bool check_kernel(Device& device, const char* kernel, std::size_t wire, From from, To to) {
  const std::vector<std::int64_t> counts{1, 7, 16, 1023, 4096, 65537, 131'073};
  bool right = true;
  for (std::size_t skip : {std::size_t{0}, sizeof(T), 3 * sizeof(T)}) {
    const Layout layout(counts, sizeof(T), wire, skip);
    const Memory memory(device, layout.tensor_bytes), buffer(device, layout.wire_bytes);
    std::vector<std::byte> host(layout.tensor_bytes), back(layout.tensor_bytes);
    const auto value = [&](const std::vector<std::byte>& in, const Layout::Tensor& t,
                           std::size_t i) {
      T element;
      std::memcpy(&element, in.data() + t.offset + i * sizeof(T), sizeof(T));
      return to(element);
    };
    for (const auto& t : layout.tensors) {
      for (std::size_t i = 0; i < t.count; ++i) {
        const T element = from(static_cast<float>((i + t.count) % 100));
        std::memcpy(host.data() + t.offset + i * sizeof(T), &element, sizeof(T));
      }
    }
    const bool scales = std::string_view(kernel) != "hv_move_bytes";
    need(device.copy(memory.at(0), host.data(), host.size(), nullptr));
    layout.run(device, kernel, memory, buffer, false, 2);
    synchronize(device);
    need(device.copy(memory.at(0), back.data(), back.size(), nullptr));  // zeros
    layout.run(device, kernel, memory, buffer, true, 0.25);
    synchronize(device);
    need(device.copy(back.data(), memory.at(0), back.size(), nullptr));
    for (const auto& t : layout.tensors) {
      for (std::size_t i = 0; right && i < t.count; ++i) {
        const float expected = static_cast<float>((i + t.count) % 100) * (scales ? 0.5F : 1.0F);
        right = value(back, t, i) == expected;
        if (!right) {
          std::printf("WRONG %s: element %zu of %zu, %zu bytes off\n", kernel, i, t.count, skip);
        }
      }
    }
  }
  return right;
}

bool check_kernels(Device& device) {
  const auto same = [](float value) { return value; };
  const auto plain = [](auto value) { return static_cast<float>(value); };
  const auto byte = [](float value) { return static_cast<unsigned char>(value); };
  const auto half = [](float value) { return to_float16(value); };
  const auto brain = [](float value) { return to_bfloat16(value); };
  const auto wide = [](auto value) { return to_float(value); };
  bool right = check_kernel<unsigned char>(device, "hv_move_bytes", 1, byte, plain);
  right = check_kernel<float>(device, "hv_move_f32", 4, same, plain) && right;
  right = check_kernel<double>(device, "hv_move_f64", 8, same, plain) && right;
  right = check_kernel<Float16>(device, "hv_move_f16", 2, half, wide) && right;
  right = check_kernel<BFloat16>(device, "hv_move_bf16", 2, brain, wide) && right;
  right = check_kernel<float>(device, "hv_move_f32_f16", 2, same, plain) && right;
  right = check_kernel<float>(device, "hv_move_f32_bf16", 2, same, plain) && right;
  std::printf("kernels: %s\n", right ? "all exact" : "WRONG");
  return right;
}

template <class Run>
double seconds_of(Device& device, Run run) {
  constexpr int kTimes = 50;
  for (int i = 0; i < 5; ++i) run();
  synchronize(device);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) run();
  synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kTimes;
}

void time_model(Device& device, std::string_view model) {
  const auto counts = bench::gradients_of(model);
  std::vector<std::int64_t> bytes;
  for (std::int64_t count : counts) bytes.push_back(count * 4);
  const Layout layout(bytes, 1, 1, 0);
  const Memory memory(device, layout.tensor_bytes), buffer(device, layout.wire_bytes);
  const double both = seconds_of(device, [&] {
    layout.run(device, "hv_move_bytes", memory, buffer, false, 1);
    layout.run(device, "hv_move_bytes", memory, buffer, true, 1);
  });
  const double copy = seconds_of(device, [&] {
    const Device::Current current(device);
    need(device.checked(device.api().MemcpyAsync(buffer.address, memory.address, layout.wire_bytes,
                                                 device.stream()),
                        "cuMemcpyAsync"));
  });
  const double gb = static_cast<double>(layout.wire_bytes) / 1e9;
  std::printf(
      "%-9.*s %4zu tensors %7.1f MB: copy %6.0f GB/s, pack + unpack %8.1f us, %5.1f %% of it\n",
      static_cast<int>(model.size()), model.data(), counts.size(), gb * 1e3, 2 * gb / copy,
      both * 1e6, 200 * copy / both);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const char* driver = std::getenv("HVRUN_CUDA_LIBRARY");
  auto device = Device::open(driver ? driver : "", -1, 0);
  if (!device) {
    std::printf("skipped: %s\n", device.error().text.c_str());
    return 77;
  }
  std::printf("GPU %d: %s, driver %d.%d\n", (*device)->ordinal(), (*device)->name().c_str(),
              (*device)->driver_version() / 1000, (*device)->driver_version() % 1000 / 10);
  const bool right = check_kernels(**device);
  for (auto model : bench::known_models()) {
    if (!quick) time_model(**device, model);
  }
  return right ? 0 : 1;
}
