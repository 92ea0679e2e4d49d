#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Checked access to JSON that was not written by us. Who looks into a Json includes <nlohmann/json.hpp>.
///
/// `where` is what a message begins with: the file, and the path to an inner object if there is one. The
/// readers take any Json and throw invalid_argument, naming the key, what was expected and what was found, if
/// it is no object or if the value does not fit. An optional value that is null counts as absent. Stateless,
/// safe to use from several threads.
using Json = nlohmann::json;

/// Arrays and objects inside each other that parse_json accepts; model files have fewer than ten.
inline constexpr int kMaxJsonDepth = 64;

/// Throws corrupt, with the position, if `text` is not one JSON value or has more than kMaxJsonDepth levels,
/// and as refuse_lfs_pointer.
Json parse_json(std::string_view text, std::string_view where);

/// The text with NaN, Infinity and -Infinity as strings: JSON has no word for them, and Python writes them
/// all the same. A reader that wants a number refuses the string; nobody else minds. Inside strings and where
/// it is no JSON anyway nothing is changed.
std::string quote_non_finite(std::string_view text);

/// parse_json of a file of at most `max_bytes`; throws like read_text_file, too.
Json read_json_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// The member called `key`, or nullptr if it is absent or null. The pointer lives until `object` changes.
const Json* find_member(const Json& object, std::string_view key, std::string_view where);

/// As find_member, for a member that must be an object.
const Json* find_object(const Json& object, std::string_view key, std::string_view where);

/// An integer of [min, max]. A number with a fraction or exponent is refused even if its value is whole.
std::int64_t required_int(const Json& object, std::string_view key, std::int64_t min, std::int64_t max,
                          std::string_view where);
std::optional<std::int64_t> optional_int(const Json& object, std::string_view key, std::int64_t min,
                                         std::int64_t max, std::string_view where);

/// One integer, or an array of them; nothing if the key is absent.
std::optional<std::vector<std::int64_t>> optional_ints(const Json& object, std::string_view key,
                                                       std::int64_t min, std::int64_t max,
                                                       std::string_view where);

/// Any finite number, whole or not.
std::optional<double> optional_double(const Json& object, std::string_view key, std::string_view where);

std::optional<bool> optional_bool(const Json& object, std::string_view key, std::string_view where);

std::string required_string(const Json& object, std::string_view key, std::string_view where);
std::optional<std::string> optional_string(const Json& object, std::string_view key, std::string_view where);

/// A value as a message shows it, on one line and short: `2.5`, `"silu"`, `an array of 3`.
std::string describe(const Json& value);

/// `text` in quotes, escaped and shortened so that a name out of a damaged file cannot spoil a message.
std::string quote(std::string_view text);

}  // namespace tandem
