#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/backend.hpp"

namespace tandem {

/// How a block comes to be on both backends.
enum class Path : std::uint8_t {
  there,   ///< it is on both already (the zero slot)
  direct,  ///< one side is host memory that the other backend reaches by itself
  staged,  ///< through staging memory on the host
};

/// A block on its way from one backend to another.
struct BlockCopy {
  Backend* from = nullptr;
  Backend* to = nullptr;
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t bytes = 0;
  Path path = Path::staged;

  bool goes_like(const BlockCopy& other) const {
    return from == other.from && to == other.to && path == other.path;
  }
};

/// The backends that may still be copying, and waits for them when it goes, so that no memory goes before.
class BusyBackends {
 public:
  BusyBackends() = default;
  BusyBackends(const BusyBackends&) = delete;
  BusyBackends(BusyBackends&&) = default;
  BusyBackends& operator=(const BusyBackends&) = delete;
  ~BusyBackends() { settle(); }

  void add(std::span<const BlockCopy> copies);
  void add(Backend& backend);
  /// They have been waited for.
  void clear() { backends_.clear(); }
  /// Waits for them, whatever they say.
  void settle() noexcept;

 private:
  std::vector<Backend*> backends_;
};

}  // namespace tandem
