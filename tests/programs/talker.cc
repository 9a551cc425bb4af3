// A rank that prints as fast as it can: talker BYTES. Lines "RANK NUMBER xxx…" of 100 bytes.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  constexpr std::size_t kLine = 100, kBlock = 64 * 1024 / kLine;
  const char* rank = std::getenv("HVRUN_RANK");
  const long long lines = argc > 1 ? std::atoll(argv[1]) / static_cast<long long>(kLine) : 0;
  std::string block;
  for (long long number = 0; number < lines; ++number) {
    char head[64];
    int size = std::snprintf(head, sizeof head, "%s %lld ", rank != nullptr ? rank : "0", number);
    block.append(head, static_cast<std::size_t>(size));
    block.append(kLine - 1 - static_cast<std::size_t>(size), 'x');
    block += '\n';
    if (block.size() < kBlock * kLine && number + 1 < lines) continue;
    for (std::size_t done = 0; done < block.size();) {
      auto written = ::write(STDOUT_FILENO, block.data() + done, block.size() - done);
      if (written <= 0) return 1;
      done += static_cast<std::size_t>(written);
    }
    block.clear();
  }
  return 0;
}
