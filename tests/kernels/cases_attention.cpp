#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/kernels/cases.hpp"

/// Operators of a full-attention layer.
namespace tandem::test {
namespace {

/// A batch's keys and values: pages of all sequences in one pool, in an order that is not theirs.
struct Paging {
  std::int64_t kv_heads = 0;
  std::int64_t page_tokens = 0;
  std::int64_t head_dim = 0;
  std::vector<RowRange> ranges;
  std::vector<std::int64_t> positions;           ///< of each sequence's first row
  std::vector<std::vector<std::int64_t>> pages;  ///< of each sequence, in order: rows of the pool

  /// Element of the pool where the key (half 0) or value (half 1) of a position begins.
  std::int64_t element(std::size_t sequence, std::int64_t half, std::int64_t head,
                       std::int64_t position) const {
    const std::int64_t page = pages[sequence][static_cast<std::size_t>(position / page_tokens)];
    return (((page * 2 + half) * kv_heads + head) * page_tokens + position % page_tokens) * head_dim;
  }
};

/// Draws page size and order for sequences that end after `positions[i] + ranges[i].rows`.
std::int64_t draw_pages(CaseBuilder& b, Paging& p) {
  p.page_tokens = b.dice().pick<std::int64_t>({1, 5, 16, 64, 100, 128, 256});
  std::vector<std::int64_t> order;
  for (std::size_t s = 0; s < p.ranges.size(); ++s) {
    const std::int64_t end = p.positions[s] + p.ranges[s].rows;
    p.pages.emplace_back(static_cast<std::size_t>((end + p.page_tokens - 1) / p.page_tokens));
    for (std::size_t i = 0; i < p.pages[s].size(); ++i)
      order.push_back(static_cast<std::int64_t>(order.size()));
    b.note(fmt::format("{} at {}", s == 0 ? "" : ",", p.positions[s]));
  }
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(b.dice().between(0, static_cast<std::int64_t>(i) - 1))]);
  }
  std::size_t next = 0;
  for (auto& pages : p.pages) {
    for (std::int64_t& page : pages) page = order[next++];
  }
  b.note(fmt::format("; pages of {}", p.page_tokens));
  return static_cast<std::int64_t>(order.size());
}

/// A pool with gaps between its pages, all poison.
Operand pool(const Paging& p, std::int64_t pages, Access access) {
  return Operand("pages", DType::f32, Shape{pages, 2 * p.kv_heads * p.page_tokens * p.head_dim},
                 Layout{0, 24, 0}, access);
}

/// Calls body(element) for every key and value element of positions [begin, end).
template <class Body>
void for_each_kept(const Paging& p, std::size_t sequence, std::int64_t begin, std::int64_t end,
                   const Body& body) {
  for (std::int64_t half = 0; half < 2; ++half) {
    for (std::int64_t head = 0; head < p.kv_heads; ++head) {
      for (std::int64_t position = begin; position < end; ++position) {
        for (std::int64_t d = 0; d < p.head_dim; ++d) body(p.element(sequence, half, head, position) + d);
      }
    }
  }
}

/// The segments and the lists of pages that they point to.
struct BoundPages {
  std::vector<std::vector<void*>> pages;
  std::vector<KvSegment> segments;
};

BoundPages bind(const Paging& p, const Tensor& pool) {
  BoundPages bound;
  for (const auto& rows : p.pages) {
    bound.pages.emplace_back();
    for (std::int64_t row : rows) bound.pages.back().push_back(pool.slice_rows(row, 1).data);
  }
  for (std::size_t s = 0; s < p.ranges.size(); ++s) {
    bound.segments.push_back({p.ranges[s], p.positions[s], bound.pages[s]});
  }
  return bound;
}

/// A prompt that crosses the 128 positions of a block more than once, or a short one.
std::int64_t draw_position(CaseBuilder& b) {
  if (b.large()) return 290;
  return b.dice().one_in(2) ? b.dice().between(0, 400)
                            : b.dice().pick<std::int64_t>({0, 1, 120, 126, 127, 128, 250, 255});
}

}  // namespace

Case head_norm_rope_case(CaseBuilder b) {
  const std::int64_t n = b.large() ? 100 : b.dice().between(1, 9),
                     heads = b.large() ? 16 : b.dice().between(1, 7);
  const std::int64_t width =
      b.large() ? 128 : b.dice().pick<std::int64_t>({8, 17, 32, 64, 96, 100, 128, 256});
  const std::int64_t half = b.large() ? 16 : b.dice().between(1, width / 2),
                     positions = b.dice().between(1, 30);
  const std::int64_t head_stride = b.dice().pick({width, 2 * width, width + b.dice().between(1, 9)});
  const double eps = b.eps();
  const Shape shape{n, heads, width};
  const std::size_t x = b.spread_heads("x", shape, head_stride);
  const std::size_t weight = b.packed("weight", DType::f32, Shape{width});
  const std::size_t cos = b.activation("cos", Shape{positions, half}),
                    sin = b.activation("sin", Shape{positions, half});
  const std::size_t at = b.indices("positions", n, positions);
  const std::size_t y = b.output("y", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    submit(HeadNormRope{o[x], head_stride, o[weight], eps, o[cos], o[sin], o[at], o[y]});
  });
}

Case kv_append_case(CaseBuilder b) {
  Paging p;
  p.ranges = ragged_batch(b);
  // One long prompt: copying a few tokens is not worth a second thread.
  if (b.large()) p.ranges = {{0, 500}, {500, 101}};
  for (std::size_t s = 0; s < p.ranges.size(); ++s) p.positions.push_back(draw_position(b));
  p.kv_heads = b.large() ? 8 : b.dice().between(1, 5);
  p.head_dim = b.large() ? 128 : b.dice().pick<std::int64_t>({8, 17, 32, 64});
  const Shape shape{total_rows(p.ranges), p.kv_heads, p.head_dim};
  const std::size_t k = b.activation("k", shape), v = b.activation("v", shape);
  Operand kept = pool(p, draw_pages(b, p), Access::update);
  for (std::size_t s = 0; s < p.ranges.size(); ++s) {
    for_each_kept(p, s, p.positions[s], p.positions[s] + p.ranges[s].rows,
                  [&](std::int64_t e) { kept.mark(e); });
  }
  const std::size_t pages = b.add(std::move(kept));
  return b.make([=](const Bound& o, const Submit& submit) {
    const BoundPages bound = bind(p, o[pages]);
    submit(KvAppend{o[k], o[v], p.page_tokens, bound.segments});
  });
}

Case attention_case(CaseBuilder b) {
  Paging p;
  p.ranges = ragged_batch(b);
  const std::int64_t n = total_rows(p.ranges);
  std::int64_t longest = 0;
  for (const RowRange& range : p.ranges) {
    p.positions.push_back(draw_position(b));
    longest = std::max(longest, p.positions.back() + range.rows);
  }
  constexpr std::int64_t kMostWork = 400'000;  // multiply-adds of a small case
  std::int64_t group = 3;
  p.kv_heads = 4, p.head_dim = 64;
  if (!b.large()) {
    do {
      p.kv_heads = b.dice().between(1, 3), group = b.dice().between(1, 4);
      p.head_dim = b.dice().pick<std::int64_t>({8, 17, 32, 64, 100, 128, 256});
    } while (n * p.kv_heads * group * longest * p.head_dim > kMostWork);
  }
  const Shape shape{n, p.kv_heads * group, p.head_dim};
  const double scale = b.scale_of(p.head_dim);
  const std::size_t q = b.activation("q", shape);
  Operand kept = pool(p, draw_pages(b, p), Access::read);
  for (std::size_t s = 0; s < p.ranges.size(); ++s) {
    const Values kind = b.values();
    for_each_kept(p, s, 0, p.positions[s] + p.ranges[s].rows,
                  [&](std::int64_t e) { kept.set(e, draw(kind, b.dice())); });
  }
  const std::size_t pages = b.add(std::move(kept)), y = b.output("o", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    const BoundPages bound = bind(p, o[pages]);
    submit(Attention{o[q], p.kv_heads, scale, p.page_tokens, bound.segments, o[y]});
  });
}

}  // namespace tandem::test
