#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// What a planned fault does.
enum class FaultKind : std::uint8_t {
  launch,  ///< submit throws Error(device_lost), once: nothing was launched
  alloc,   ///< a call that takes memory throws Error(out_of_memory), once
  lost,    ///< from this call on every call throws Error(device_lost), for good
  fail,    ///< a call of another kind throws Error(device_lost), once
  flip,    ///< one bit of a transfer arrives wrong, once
  delay,   ///< a copy takes effect late: when something waits for it or needs its order, once
  miss,    ///< a layer's weights count as not loaded where its state lives, once
  kill,    ///< the process dies (SIGKILL) between writing a file and giving it its name
};

/// Calls of a backend as faults count them.
enum class FaultCall : std::uint8_t {
  any,     ///< all of those below
  launch,  ///< submit, checksums
  alloc,   ///< allocate, allocate_staging, load, generate
  upload,  ///< as the next four: the function of that name
  download,
  send,
  receive,
  copy,
  record,
  wait,  ///< synchronize, and wait of an event
};

/// One thing that goes wrong, as plain data. Fields that its kind does not use have their defaults.
struct Fault {
  std::string backend = "";  ///< by name; empty: calls of all backends count together
  FaultKind kind = FaultKind::launch;
  FaultCall call = FaultCall::launch;
  std::int64_t number = 1;  ///< happens at the number-th such call, from 1 on ...
  std::int64_t token = -1;  ///< ... since the step that computes this token began; -1: since it was armed
  std::int64_t byte = 0;    ///< flip: of the transfer (of its last byte, if it is shorter)
  int bit = 0;              ///< flip: 0 to 7
  double milliseconds = 0;  ///< delay: at least
  int layer = 0;            ///< miss: of this layer, in the step that computes `token` of a sequence

  bool operator==(const Fault&) const = default;
};

// clang-format off
/// The text form, for command lines and messages:
///
///     faults  =  fault { "," fault }
///     fault   =  [ BACKEND "/" ] what          BACKEND as in placements: cpu, cuda:0
///     what    =  ( "launch" | "alloc" | "lost" ) "@" when
///             |  "fail@" CALL ":" when
///             |  "flip@" ( "upload" | "download" | "send" | "receive" ) ":" when [ ":byte=" N ] [ ":bit=" N ]
///             |  "delay@" ( those | "copy" ) ":" when ":ms=" N
///             |  "miss@" LAYER ":" TOKEN  |  "kill@rename"          these two without a BACKEND
///     when    =  N                             the N-th such call, from 1 on
///             |  "token:" T                    the first one in or after the step that computes token T
///
/// Tokens count from 0 in their sequence; a step of a prompt computes several. `lost` counts calls of any
/// kind. Examples: launch@12, cuda:0/lost@token:7, flip@send:2:byte=100:bit=3, delay@receive:1:ms=5.
///
/// Throws Error(invalid_argument) that quotes the fault and says what was expected.
// clang-format on
std::vector<Fault> parse_faults(std::string_view text);

/// In the text form. parse_faults(to_string(f)) is {f}.
std::string to_string(const Fault& fault);

std::string_view name(FaultCall call);

}  // namespace tandem
