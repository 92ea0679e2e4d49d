#include "core/fault_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/error.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 8> kKinds{"launch", "alloc", "lost", "fail",
                                                 "flip",   "delay", "miss", "kill"};
constexpr std::array<std::string_view, 10> kCalls{"any",  "launch",  "alloc", "upload", "download",
                                                  "send", "receive", "copy",  "record", "wait"};

std::string_view name(FaultKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

template <std::size_t n>
std::optional<std::size_t> index_of(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

/// Takes one fault apart from left to right; every refusal quotes the whole of it.
class FaultParser {
 public:
  explicit FaultParser(std::string_view text) : text_(text), rest_(text) {}

  Fault parse() {
    if (const std::size_t slash = rest_.find('/'); slash != std::string_view::npos) {
      fault_.backend = rest_.substr(0, slash);
      rest_.remove_prefix(slash + 1);
      if (fault_.backend.empty()) refuse("the name of a backend before '/'");
    }
    parse_kind();
    switch (fault_.kind) {
      case FaultKind::launch:
      case FaultKind::alloc:
      case FaultKind::lost:
        parse_when();
        break;
      case FaultKind::fail:
      case FaultKind::flip:
      case FaultKind::delay:
        parse_call();
        parse_when();
        break;
      case FaultKind::miss:
        if (!fault_.backend.empty()) refuse("no backend: a miss is where the layer's state lives");
        fault_.layer = static_cast<int>(number(part(), "a layer", 0, 1'000'000));
        fault_.token = number(part(), "a token", 0, kMost);
        break;
      case FaultKind::kill:
        if (!fault_.backend.empty()) refuse("no backend: it is the process that dies");
        if (part() != "rename") refuse("'rename' after '@'");
        break;
    }
    parse_options();
    return fault_;
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 62;

  [[noreturn]] void refuse(std::string_view expected) const {
    fail(ErrorCode::invalid_argument, "fault '{}': expected {}", text_, expected);
  }

  /// What stands before the next colon.
  std::string_view part() {
    const std::size_t colon = std::min(rest_.find(':'), rest_.size());
    const std::string_view first = rest_.substr(0, colon);
    rest_.remove_prefix(std::min(colon + 1, rest_.size()));
    return first;
  }

  std::int64_t number(std::string_view digits, std::string_view what, std::int64_t least,
                      std::int64_t most) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (!whole || value < least || value > most) {
      refuse(fmt::format("{} as a whole number of {} to {}, found '{}'", what, least, most, digits));
    }
    return value;
  }

  void parse_kind() {
    const std::size_t at = rest_.find('@');
    const auto kind = index_of(kKinds, rest_.substr(0, std::min(at, rest_.size())));
    if (!kind || at == std::string_view::npos) {
      refuse(fmt::format("KIND@WHEN with one of {} as the kind", fmt::join(kKinds, ", ")));
    }
    fault_.kind = static_cast<FaultKind>(*kind);
    fault_.call = fault_.kind == FaultKind::launch  ? FaultCall::launch
                  : fault_.kind == FaultKind::alloc ? FaultCall::alloc
                                                    : FaultCall::any;
    rest_.remove_prefix(at + 1);
  }

  void parse_call() {
    const auto call = index_of(kCalls, part());
    const auto is = [&](std::initializer_list<FaultCall> allowed) {
      return call &&
             std::find(allowed.begin(), allowed.end(), static_cast<FaultCall>(*call)) != allowed.end();
    };
    using enum FaultCall;
    if (fault_.kind == FaultKind::flip && !is({upload, download, send, receive}))
      refuse("upload, download, send or receive after '@'");
    if (fault_.kind == FaultKind::delay && !is({upload, download, send, receive, copy}))
      refuse("upload, download, send, receive or copy after '@'");
    if (!call) refuse(fmt::format("one of {} after '@'", fmt::join(kCalls, ", ")));
    fault_.call = static_cast<FaultCall>(*call);
  }

  void parse_when() {
    const std::string_view first = part();
    if (first != "token") {
      fault_.number = number(first, "the number of a call", 1, kMost);
    } else {
      fault_.token = number(part(), "a token", 0, kMost);
    }
  }

  void parse_options() {
    bool has_milliseconds = false;
    while (!rest_.empty() || text_.ends_with(':')) {
      const std::string_view option = part();
      const std::size_t equals = std::min(option.find('='), option.size());
      const std::string_view key = option.substr(0, equals);
      const std::string_view value = option.substr(std::min(equals + 1, option.size()));
      if (fault_.kind == FaultKind::flip && key == "byte") {
        fault_.byte = number(value, "byte", 0, kMost);
      } else if (fault_.kind == FaultKind::flip && key == "bit") {
        fault_.bit = static_cast<int>(number(value, "bit", 0, 7));
      } else if (fault_.kind == FaultKind::delay && key == "ms") {
        fault_.milliseconds = static_cast<double>(number(value, "ms", 0, 60'000));
        has_milliseconds = true;
      } else {
        refuse(fmt::format("nothing like '{}'", option));
      }
    }
    if (fault_.kind == FaultKind::delay && !has_milliseconds) refuse("how long, as in ':ms=5'");
  }

  std::string_view text_, rest_;
  Fault fault_;
};

}  // namespace

std::string_view name(FaultCall call) { return kCalls[static_cast<std::size_t>(call)]; }

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    faults.push_back(FaultParser(text.substr(begin, end - begin)).parse());
    begin = end + 1;
  }
  return faults;
}

std::string to_string(const Fault& fault) {
  std::string text = fault.backend.empty() ? "" : fault.backend + "/";
  text += fmt::format("{}@", name(fault.kind));
  if (fault.kind == FaultKind::kill) return text + "rename";
  if (fault.kind == FaultKind::miss) return text + fmt::format("{}:{}", fault.layer, fault.token);
  const bool has_call =
      fault.kind == FaultKind::fail || fault.kind == FaultKind::flip || fault.kind == FaultKind::delay;
  if (has_call) text += fmt::format("{}:", name(fault.call));
  text += fault.token < 0 ? fmt::format("{}", fault.number) : fmt::format("token:{}", fault.token);
  if (fault.kind == FaultKind::flip) text += fmt::format(":byte={}:bit={}", fault.byte, fault.bit);
  if (fault.kind == FaultKind::delay) text += fmt::format(":ms={}", fault.milliseconds);
  return text;
}

}  // namespace tandem
