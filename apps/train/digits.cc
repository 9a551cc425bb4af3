#include "apps/train/digits.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <stdexcept>

extern const unsigned char digits_csv_gz[];
extern const std::size_t digits_csv_gz_size;

namespace hv::train {
namespace {

constexpr float kBrightest = 16;
constexpr int kEveryNthIsTest = 5;

std::string gunzip(std::span<const unsigned char> packed) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzip) != Z_OK) throw std::runtime_error("zlib does not start");
  stream.next_in = const_cast<unsigned char*>(packed.data());  // zlib reads it only
  stream.avail_in = static_cast<unsigned>(packed.size());
  std::string text;
  std::array<char, 1 << 16> chunk;
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<unsigned char*>(chunk.data());
    stream.avail_out = chunk.size();
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(chunk.data(), chunk.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("the digits in this program are damaged");
  return text;
}

// The numbers of one line; the label is the last.
std::array<int, kPixels + 1> parse_line(std::string_view line, std::size_t number) {
  std::array<int, kPixels + 1> values{};
  const char* at = line.data();
  const char* const end = at + line.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    const bool last = i + 1 == values.size();
    const int highest = last ? kClasses - 1 : static_cast<int>(kBrightest);
    const bool separated = last ? next == end : next != end && *next == ',';
    if (error != std::errc{} || values[i] < 0 || values[i] > highest || !separated) {
      throw std::runtime_error("digits line " + std::to_string(number) + ", column " +
                               std::to_string(i + 1) + ": not a whole number of 0 to " +
                               std::to_string(highest) + " in a line of 65");
    }
    at = next + 1;
  }
  return values;
}

}  // namespace

Rows parse_digits(const std::string& csv) {
  std::vector<std::array<int, kPixels + 1>> lines;
  for (std::size_t from = 0; from < csv.size();) {
    const auto to = std::min(csv.find('\n', from), csv.size());
    lines.push_back(parse_line(std::string_view(csv).substr(from, to - from), lines.size() + 1));
    from = to + 1;
  }
  Rows rows;
  rows.pixels.resize(static_cast<Eigen::Index>(lines.size()), kPixels);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t k = 0; k < kPixels; ++k) {
      rows.pixels(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k)) =
          static_cast<float>(lines[i][k]) / kBrightest;
    }
    rows.labels.push_back(lines[i].back());
  }
  return rows;
}

Rows select(const Rows& rows, std::span<const std::int64_t> indices) {
  Rows chosen;
  chosen.pixels.resize(static_cast<Eigen::Index>(indices.size()), rows.pixels.cols());
  chosen.labels.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    chosen.pixels.row(static_cast<Eigen::Index>(i)) = rows.pixels.row(indices[i]);
    chosen.labels.push_back(rows.labels[static_cast<std::size_t>(indices[i])]);
  }
  return chosen;
}

Digits load_digits() {
  const Rows all = parse_digits(gunzip({digits_csv_gz, digits_csv_gz_size}));
  std::vector<std::int64_t> train, test;
  for (std::int64_t i = 0; i < all.count(); ++i) {
    (i % kEveryNthIsTest == kEveryNthIsTest - 1 ? test : train).push_back(i);
  }
  return {select(all, train), select(all, test)};
}

}  // namespace hv::train
