#include "runtime/negotiation.h"

#include <algorithm>

#include "rendezvous/codec.h"

namespace hv::runtime {
namespace {

using base::Bytes;
using base::ByteSpan;
using base::Reader;
using base::Writer;
using rendezvous::codec::Decoder;
using rendezvous::codec::Encoder;

enum class SetForm : std::uint8_t { kList = 0, kBits = 1 };

constexpr std::uint32_t kMaxIds = 1u << 26;

// Ids in order; ascending ones that lie close together as a bit set.
void put_ids(Writer& out, const std::vector<NameId>& ids) {
  const bool ascending =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  const std::size_t words = ascending && !ids.empty() ? (ids.back() - ids.front()) / 64 + 1 : 0;
  if (words == 0 || words * 8 + 4 >= ids.size() * 4) {
    out.put(SetForm::kList);
    out.put(static_cast<std::uint32_t>(ids.size()));
    out.append({reinterpret_cast<const std::byte*>(ids.data()), ids.size() * sizeof(NameId)});
    return;
  }
  std::vector<std::uint64_t> bits(words);
  for (NameId id : ids) {
    const NameId at = id - ids.front();
    bits[at / 64] |= std::uint64_t{1} << (at % 64);
  }
  out.put(SetForm::kBits);
  out.put(ids.front());
  out.put(static_cast<std::uint32_t>(words));
  out.append({reinterpret_cast<const std::byte*>(bits.data()), words * 8});
}

std::vector<NameId> get_ids(Reader& in) {
  std::vector<NameId> ids;
  const auto form = in.get<SetForm>();
  if (form == SetForm::kList) {
    const auto count = in.get<std::uint32_t>();
    const auto raw = in.take(count <= kMaxIds ? count * sizeof(NameId) : in.left() + 1);
    ids.resize(raw.size() / sizeof(NameId));
    if (!raw.empty()) std::memcpy(ids.data(), raw.data(), raw.size());
    return ids;
  }
  if (form != SetForm::kBits) in.fail();
  const auto first = in.get<NameId>();
  const auto words = in.get<std::uint32_t>();
  if (words > in.left() / 8) in.fail();
  for (std::uint32_t w = 0; in.ok() && w < words; ++w) {
    for (auto bits = in.get<std::uint64_t>(); bits != 0; bits &= bits - 1) {
      ids.push_back(first + w * 64 + static_cast<NameId>(std::countr_zero(bits)));
    }
  }
  return ids;
}

std::int32_t device_of(const Op& op) { return op.input.device < 0 ? -1 : 0; }

template <class T>
base::Result<T> whole(Decoder& decoder, T value, const char* what) {
  if (decoder.in.done()) return value;
  return base::fail(base::Code::kProtocol,
                    std::string("a negotiation message (") + what +
                        ") is cut short or too long; are all ranks from one build?");
}

}  // namespace

Signature signature_of(const Op& op) {
  Signature s{op.kind, op.input.dtype, op.reduce, op.prescale, op.postscale,
              op.root, device_of(op),  op.set,    op.group,    op.input.shape};
  if (rows_per_rank(op.kind, 1) > 0) s.shape[0] = -1;
  return s;
}

bool matches(const Signature& s, const Op& op) {
  const Shape& shape = op.input.shape;
  const bool same_shape =
      rows_per_rank(op.kind, 1) > 0
          ? s.shape.size() == shape.size() &&
                std::equal(s.shape.begin() + 1, s.shape.end(), shape.begin() + 1)
          : s.shape == shape;
  return s.kind == op.kind && same_shape && s.dtype == op.input.dtype && s.reduce == op.reduce &&
         s.prescale == op.prescale && s.postscale == op.postscale && s.root == op.root &&
         s.device == device_of(op) && s.set == op.set && s.group == op.group;
}

std::vector<std::int64_t> rows_of(const Op& op) {
  if (op.kind == OpKind::kAllgather) return {op.input.shape[0]};
  return op.splits;
}

std::size_t result_bytes(const Signature& s, std::int64_t all_rows) {
  if (!has_data(s.kind)) return 0;
  const bool free_rows = rows_per_rank(s.kind, 1) > 0;
  std::int64_t count = free_rows ? all_rows : 1;
  for (std::size_t i = free_rows ? 1 : 0; i < s.shape.size(); ++i) count *= s.shape[i];
  return static_cast<std::size_t>(count) * size_of(s.dtype);
}

bool goes_on_without(const Signature& s) {
  if (s.kind == OpKind::kBarrier || s.kind == OpKind::kJoin) return true;
  // What changes nothing is known before scaling only for sums.
  const bool adds =
      s.reduce == ReduceOp::kSum || s.reduce == ReduceOp::kAverage || s.reduce == ReduceOp::kAdasum;
  return s.kind == OpKind::kAllreduce && (adds || s.prescale == 1.0);
}

void Report::clear() {
  ready.clear();
  known.clear();
  fresh.clear();
  left.clear();
  heard = false;
}

Bytes encode(const Report& report) {
  Bytes bytes;
  Encoder encoder{Writer(bytes)};
  put_ids(encoder.out, report.ready);
  encoder(report.known, report.fresh, report.left, report.heard);
  return bytes;
}

base::Result<Report> decode_report(ByteSpan bytes) {
  Report report;
  Decoder decoder{Reader(bytes)};
  report.ready = get_ids(decoder.in);
  decoder(report.known, report.fresh, report.left, report.heard);
  return whole(decoder, std::move(report), "report");
}

Bytes encode(const Decisions& decisions) {
  Bytes bytes;
  Encoder encoder{Writer(bytes)};
  encoder.out.put(static_cast<std::uint32_t>(decisions.batches.size()));
  for (const BatchDecision& batch : decisions.batches) {
    encoder(batch.sequence, batch.set);
    put_ids(encoder.out, batch.ids);
    encoder(batch.names, batch.rows, batch.signatures, batch.error);
  }
  put_ids(encoder.out, decisions.forgotten);
  encoder(decisions.left);
  return bytes;
}

base::Result<Decisions> decode_decisions(ByteSpan bytes) {
  Decisions decisions;
  Decoder decoder{Reader(bytes)};
  const auto count = decoder.in.get<std::uint32_t>();
  for (std::uint32_t i = 0; decoder.in.ok() && i < count; ++i) {
    BatchDecision& batch = decisions.batches.emplace_back();
    decoder(batch.sequence, batch.set);
    batch.ids = get_ids(decoder.in);
    decoder(batch.names, batch.rows, batch.signatures, batch.error);
    const std::size_t ops = batch.ids.size();
    if (!batch.names.empty() && batch.names.size() != ops) decoder.in.fail();
    if (!batch.signatures.empty() && batch.signatures.size() != ops) decoder.in.fail();
  }
  decisions.forgotten = get_ids(decoder.in);
  decoder(decisions.left);
  return whole(decoder, std::move(decisions), "decisions");
}

}  // namespace hv::runtime
