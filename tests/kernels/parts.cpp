#include "tests/kernels/parts.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <type_traits>

namespace tandem::test {
namespace {

/// Rows [first, first + count) of a step.
struct Part {
  std::int64_t first;
  std::int64_t count;

  template <class Void>
  BasicTensor<Void> of(const BasicTensor<Void>& t) const {
    return t ? t.slice_rows(first, count) : t;
  }
};

/// The part's share of a segment, with rows counted from the part's first; rows == 0 if there is none.
RowRange share(const RowRange& range, const Part& part) {
  const std::int64_t begin = std::max(range.first_row, part.first);
  const std::int64_t end = std::min(range.first_row + range.rows, part.first + part.count);
  return {begin - part.first, std::max<std::int64_t>(0, end - begin)};
}

/// States between the parts of each sequence: two slots a sequence, taken in turn.
class Between {
 public:
  explicit Between(Backend& backend) : backend_(backend) {}

  /// Where this share of the segment reads and writes.
  template <class Segment>
  Segment segment(const Segment& whole, std::size_t index, const RowRange& share, const Part& part) {
    Segment s = whole;
    s.range = share;
    const std::int64_t begin = part.first + share.first_row;
    if (begin > whole.range.first_row) s.state_in.data = slot(index, turn_[index] ^ 1, whole.state_in);
    if (begin + share.rows < whole.range.first_row + whole.range.rows) {
      s.state_out.data = slot(index, turn_[index], whole.state_in);
    }
    turn_[index] ^= 1;
    return s;
  }

  void reserve(std::size_t segments) {
    if (slots_.empty()) slots_.resize(segments), turn_.resize(segments, 0);
  }

 private:
  void* slot(std::size_t index, std::size_t which, const ConstTensor& state) {
    Buffer& buffer = slots_[index][which];
    if (buffer.data() == nullptr) buffer = backend_.allocate(static_cast<std::size_t>(state.bytes()));
    return buffer.data();
  }

  Backend& backend_;
  std::vector<std::array<Buffer, 2>> slots_;
  std::vector<std::size_t> turn_;
};

class Slicer {
 public:
  explicit Slicer(Backend& backend) : backend_(backend), between_(backend) {}

  std::string_view submit(const Op& op, const Part& part) {
    return std::visit([&](const auto& args) { return slice(args, part); }, op);
  }

 private:
  std::string_view slice(Embed op, const Part& p) {
    op.ids = p.of(op.ids), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(GatherRows op, const Part& p) {
    op.rows = p.of(op.rows), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(RmsNorm op, const Part& p) {
    op.x = p.of(op.x), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(Linear op, const Part& p) {
    op.x = p.of(op.x), op.residual = p.of(op.residual), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(SiluMul op, const Part& p) {
    op.gate = p.of(op.gate), op.up = p.of(op.up), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(GdnGates op, const Part& p) {
    op.a = p.of(op.a), op.b = p.of(op.b), op.beta = p.of(op.beta), op.g = p.of(op.g);
    return backend_.submit(op);
  }
  std::string_view slice(GdnConv op, const Part& p) {
    op.x = p.of(op.x), op.y = p.of(op.y);
    const auto segments = stateful(op.segments, p);
    op.segments = segments;
    return backend_.submit(op);
  }
  std::string_view slice(GdnQkNorm op, const Part& p) {
    op.q_in = p.of(op.q_in), op.k_in = p.of(op.k_in), op.q = p.of(op.q), op.k = p.of(op.k);
    return backend_.submit(op);
  }
  std::string_view slice(GdnDelta op, const Part& p) {
    op.q = p.of(op.q), op.k = p.of(op.k), op.v = p.of(op.v), op.g = p.of(op.g), op.beta = p.of(op.beta);
    op.o = p.of(op.o);
    const auto segments = stateful(op.segments, p);
    op.segments = segments;
    return backend_.submit(op);
  }
  std::string_view slice(GdnGatedNorm op, const Part& p) {
    op.o = p.of(op.o), op.z = p.of(op.z), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(HeadNormRope op, const Part& p) {
    op.x = p.of(op.x), op.positions = p.of(op.positions), op.y = p.of(op.y);
    return backend_.submit(op);
  }
  std::string_view slice(KvAppend op, const Part& p) {
    op.k = p.of(op.k), op.v = p.of(op.v);
    const auto segments = paged(op.segments, p);
    op.segments = segments;
    return backend_.submit(op);
  }
  std::string_view slice(Attention op, const Part& p) {
    op.q = p.of(op.q), op.o = p.of(op.o);
    const auto segments = paged(op.segments, p);
    op.segments = segments;
    return backend_.submit(op);
  }
  std::string_view slice(SigmoidGate op, const Part& p) {
    op.x = p.of(op.x), op.gate = p.of(op.gate), op.y = p.of(op.y);
    return backend_.submit(op);
  }

  template <class Segment>
  std::vector<Segment> stateful(std::span<const Segment> whole, const Part& part) {
    between_.reserve(whole.size());
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const RowRange range = share(whole[i].range, part);
      if (range.rows > 0) segments.push_back(between_.segment(whole[i], i, range, part));
    }
    return segments;
  }

  std::vector<KvSegment> paged(std::span<const KvSegment> whole, const Part& part) {
    std::vector<KvSegment> segments;
    for (const KvSegment& s : whole) {
      const RowRange range = share(s.range, part);
      if (range.rows == 0) continue;
      segments.push_back({range, s.position + part.first + range.first_row - s.range.first_row, s.pages});
    }
    return segments;
  }

  Backend& backend_;
  Between between_;
};

/// The tensor that has a row for each row of the step.
struct RowsOf {
  std::int64_t operator()(const GdnGates& op) const { return op.a.rows(); }
  std::int64_t operator()(const GdnQkNorm& op) const { return op.q.rows(); }
  std::int64_t operator()(const KvAppend& op) const { return op.k.rows(); }
  template <class Args>
  std::int64_t operator()(const Args& op) const {
    if constexpr (requires { op.y; }) {
      return op.y.rows();
    } else {
      return op.o.rows();
    }
  }
};

}  // namespace

std::int64_t rows_of(const Op& op) { return std::visit(RowsOf{}, op); }

std::string_view submit_in_parts(Backend& backend, const Op& op, std::vector<std::int64_t> cuts) {
  cuts.push_back(rows_of(op));
  Slicer slicer(backend);
  std::string_view variant;
  std::int64_t begin = 0;
  for (std::int64_t end : cuts) {
    const std::string_view taken = slicer.submit(op, Part{begin, end - begin});
    if (begin > 0 && taken != variant) throw std::logic_error("parts of one operator ran different variants");
    variant = taken, begin = end;
  }
  backend.synchronize();
  return variant;
}

}  // namespace tandem::test
