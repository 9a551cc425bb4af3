// What the pack kernels are given: many tensors, and a buffer where each has a place. Shared by
// kernels.cu and those who launch it; plain enough for both compilers.
#pragma once

namespace hv::runtime::nccl {

constexpr unsigned kThreads = 256;         // of a block
constexpr unsigned kBlockBytes = 1 << 16;  // of tensors that one block moves
constexpr unsigned kPlace = 64;            // places in the buffer begin at multiples of this
constexpr unsigned kMaxPieces = 168;       // so that PackArgs fits where kernels find arguments

struct Piece {
  unsigned long long tensor;  // address
  unsigned long long count;   // elements
  unsigned place;             // in the buffer, in units of kPlace
  unsigned first_block;       // the blocks up to the next piece's are this one's
};

struct PackArgs {
  unsigned long long buffer;
  double scale;  // of every element on the way, but for bytes
  unsigned pieces;
  unsigned unpack;  // 1: from the buffer to the tensors
  Piece piece[kMaxPieces];
};
static_assert(sizeof(PackArgs) <= 4096, "the limit for arguments of a kernel");

}  // namespace hv::runtime::nccl
