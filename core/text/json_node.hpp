#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::text {

/// A value in a JSON document together with its place, so that each complaint names file and key. A member
/// that is not there and one that is null are the same. Borrows the document.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& document, std::string_view file)
      : JsonNode(document, std::string(file), "") {}

  /// A member, of a node that must be an object. Throws corrupt for any other kind; so do the getters below.
  JsonNode operator[](std::string_view key) const;

  const std::string& text() const;
  bool flag() const;
  const nlohmann::json& object() const;
  const nlohmann::json& array() const;
  std::vector<JsonNode> items() const;  ///< of an array
  /// Throws corrupt for what is not a whole number in [0, limit).
  int index(int limit) const;

  bool is_null() const;
  /// Whether the value is one of the ways to say "none": null, false, 0 or "".
  bool is_nothing() const;

  /// Throws corrupt: "FILE: key 'a.b': expected EXPECTED, found ...".
  [[noreturn]] void fail_corrupt(std::string_view expected) const;
  /// Throws unsupported: "FILE: key 'a.b': THING 'value' is not supported; known is KNOWN".
  [[noreturn]] void fail_unsupported(std::string_view thing, std::string_view known) const;

  /// The place: "FILE: key 'a.b'".
  std::string where() const;

 private:
  JsonNode(const nlohmann::json& value, std::string file, std::string key);

  const nlohmann::json* value_;
  std::string file_;
  std::string key_;
};

/// A string from a file, fit for a message: in quotes, short, on one line.
std::string in_quotes(std::string_view text);

/// Parses a document. Throws corrupt, naming `file` and the byte, for text that is no JSON or nested absurdly
/// deep.
nlohmann::json parse_json(std::string_view text, std::string_view file);

}  // namespace tandem::text
