#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/checksum.hpp"
#include "core/ops.hpp"
#include "core/random_tensor.hpp"

namespace tandem {

/// Memory of a backend. Move-only; frees itself. The contents are undefined until written.
///
/// A buffer must not outlive its backend, and is freed by a thread that may use the backend at that time.
/// Freeing never throws and works on a lost backend. The owner must not free what a transfer that has been
/// submitted still reads or writes: it waits for an event first, or knows that the backend is lost.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : memory_(data, std::move(release)), bytes_(bytes) {}

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> memory_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

/// A weight as a backend holds it. A copy has the alignment of allocate(). A weight that is used in place has
/// the alignment of its file, which may be less than a vector and even than an element of 4 bytes: kernels
/// load it so.
struct ResidentTensor {
  ConstTensor view;  ///< in the backend's memory
  std::shared_ptr<const void>
      owner;  ///< keeps it there: the backend's own copy, or the file mapping it uses in place
  std::int64_t owned_bytes = 0;  ///< backend memory taken for it; 0 when used in place
};

/// One row of a backend's kernel table.
struct KernelInfo {
  OpKind op;
  std::string_view variant;  ///< "scalar", "avx2", ...
  bool usable;               ///< this machine has what the variant needs
  bool chosen;               ///< what submit() takes for an ordinary operator of this kind
};

/// A mark in the order of a backend's work. An event must not outlive its backend. Thread-safety: as its
/// backend.
class Event {
 public:
  virtual ~Event() = default;
  /// Returns when everything submitted before the mark has been done. Throws Error(device_lost) when that
  /// cannot happen any more, and reports an earlier failure that nobody has been told of.
  virtual void wait() = 0;
  /// Milliseconds from an earlier mark to this one, by the backend's own clock. Waits for both. REQUIRES:
  /// both are of the same backend.
  virtual double ms_since(const Event& earlier) = 0;
};

/// Checksums that a backend is computing. They must not outlive their backend, and may be dropped unread.
/// Thread-safety: as the backend.
class PendingChecksums {
 public:
  virtual ~PendingChecksums() = default;
  /// Waits for them and returns them, one for each range; throws what went wrong meanwhile. Called once. A
  /// backend that is not in host memory may keep one set of results: there, REQUIRES that no others were
  /// asked for since.
  virtual std::vector<Checksum> wait() = 0;
};
/// Checksums, and an event, of a backend whose work is done when its calls return.
std::unique_ptr<Event> finished_event();
std::unique_ptr<PendingChecksums> finished_checksums(std::vector<Checksum> checksums);

/// Bytes that a backend has moved between host memory and its own since it was made. A backend with memory of
/// its own counts everything that crosses. A backend in host memory moves nothing and may leave all of it 0.
struct Traffic {
  std::uint64_t uploaded = 0;    ///< by upload and send
  std::uint64_t downloaded = 0;  ///< by download and receive
  std::uint64_t weights = 0;     ///< by load, when it copied
  std::uint64_t arguments =
      0;  ///< lists that went to the device beside a launch: pages of operators, ranges of checksums
  std::uint64_t checksums = 0;  ///< results of checksums(), 16 bytes each

  bool operator==(const Traffic&) const = default;
};

struct BackendInfo {
  std::string name;         ///< as in placements: "cpu", "reference"
  std::string description;  ///< one line for people: "avx512, 8 threads"
  DType real;               ///< element type of activations and states
  /// Its memory is the host's. Then the host may dereference its pointers; weights are used where they are
  /// mapped; other backends may send from its memory and receive into it; it can be where sequences go on
  /// when a device is lost; and its calls return when their work is done. A device that shares memory with
  /// the host without all of these says false.
  bool host_memory;
};

/// Who computes. An implementation owns a kernel table and memory; it knows nothing of models, sequences or
/// placement. This header is all that an implementer needs; backends/cpu is the plain example, and
/// tests/kernels compares every row of the table with the definition.
///
/// Order. Operators, copies, uploads and downloads take effect in the order of the calls. submit, upload,
/// send, receive and copy may return before their work is done. download, synchronize and Event::wait return
/// after it. Host arrays in an operator (segments, page lists) must live until submit() returns.
///
/// Results. Every kernel gives the bits of the operator's definition (core/README.md), whatever the batch,
/// the number of threads and the variant. The one exception is the reference backend, which computes in
/// float64 and is compared by tolerance.
///
/// Errors. They are tandem::Error, and the message names operator and variant.
///  - out_of_memory: nothing was taken, and the backend goes on.
///  - device_lost: a call has failed in a way that may be the end of the device. Work that was submitted
///  since the last
///    wait may or may not have been done; what it was to write is undefined, all other memory is as it was.
///    The error of an asynchronous call may be reported by any later call, once.
///  - After a device_lost error the caller asks alive(). If that is true, one call has failed and the backend
///  goes on.
///    If it is false, the backend is lost for good: every call that computes or copies throws device_lost,
///    and info(), traffic(), kernels(), alive() and freeing memory still work.
///  - Staging memory stays readable and writable on the host after its backend is lost: it may hold the only
///  copy.
///
/// Thread-safety: one thread at a time. Different backends may be used from different threads.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;

  /// Whether the backend can still compute. Waits for what was submitted. False is final. Does not report
  /// what went wrong meanwhile, nor forget it.
  virtual bool alive() noexcept = 0;

  /// Throws Error(out_of_memory) saying how much was asked for. Aligned to 64 bytes at least.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Bytes that allocate() could still give, as far as can be told.
  virtual std::uint64_t available_bytes() const = 0;

  /// Makes a weight resident: in place where the memory can be used as it is, else as a copy. On an Error
  /// nothing was taken.
  virtual ResidentTensor load(const HostTensor& weight) = 0;
  /// As load, for a tensor that is computed instead of stored: made in the backend's own memory, with the
  /// same bits on every backend. Default implementation: made on the host, then loaded.
  virtual ResidentTensor generate(const RandomTensor& weight);

  /// Validates the operator, then runs it with the first usable variant, or with the forced one. Returns that
  /// variant's name, so that a test can tell what really ran.
  virtual std::string_view submit(const Op& op) = 0;

  /// Copies between host memory and this backend's, and within it. Sizes in bytes. Host memory may be any,
  /// and is free to be used again when the call returns.
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  /// Host memory that send and receive reach without a detour: pinned, where a device copies by itself. Any
  /// backend in host memory may read and write it. Default implementation: ordinary memory. Throws as
  /// allocate.
  virtual Buffer allocate_staging(std::size_t bytes);
  /// upload and download from and to staging memory, taking effect in order as they do, but without waiting:
  /// the staging memory is in use until an event recorded afterwards was waited for. Memory of a backend in
  /// host memory may be given instead; it is then reached by a detour where it is not pinned. Default
  /// implementation: upload, download.
  virtual void send(void* to, const void* from_staging, std::size_t bytes);
  virtual void receive(void* to_staging, const void* from, std::size_t bytes);

  /// The block checksums (core/checksum.hpp) of ranges of this backend's memory, as they are when everything
  /// submitted so far has been done; a device computes them itself, beside what the host does meanwhile. What
  /// is submitted later does not change them. Default implementation: the ranges are downloaded and computed
  /// on the host. Throws Error(invalid_argument) when a range is not aligned to kRangeAlignment, and what
  /// download throws.
  virtual std::unique_ptr<PendingChecksums> checksums(std::span<const ByteRange> ranges);

  /// A mark after everything submitted so far. A backend whose calls return when their work is done returns
  /// finished_event().
  virtual std::unique_ptr<Event> record() = 0;

  /// Returns when everything submitted has been done; throws what went wrong in it and was not reported yet.
  virtual void synchronize() = 0;

  /// What has crossed so far. Default implementation, for a backend in host memory: nothing.
  virtual Traffic traffic() const { return {}; }

  /// The kernel table, best first within an operator.
  virtual std::vector<KernelInfo> kernels() const = 0;
  /// From now on submit() takes this variant and no other; an empty name lifts the force. Throws unsupported,
  /// with the usable names, when there is no such variant or this machine cannot run it.
  virtual void force_variant(std::string_view variant) = 0;
};

/// Whom to ask for staging memory that all of these reach: the first one with memory of its own, as it can
/// pin it, or the first of all. REQUIRES: at least one.
Backend& staging_owner(std::span<Backend* const> backends);

}  // namespace tandem
