#include "tools/gear_table.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace tandem::tools {
namespace {

std::string size_text(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

bool was_quantised(const PackedGroup& group) { return group.error.squared_values > 0; }

double relative_error(const Q4Error& error) { return std::sqrt(error.squared_error / error.squared_values); }

/// Of a weight without a choice: what it is in.
std::string gear_text(const Weight& weight) {
  if (weight.kind == WeightKind::vector) return std::string(name(Gear::f32));
  return std::string(name(weight.gear));
}

std::string group_text(const Weight& weight) {
  return std::string(weight.group ? name(*weight.group) : std::string_view("others"));
}

}  // namespace

std::vector<GearRow> gear_rows(const Graph& graph, const WeightSizes& sizes) {
  std::vector<GearRow> rows;
  for (std::size_t i = 0; i < graph.weights().size(); ++i) {
    const GearRow wanted{group_text(graph.weights()[i]), gear_text(graph.weights()[i]), 1, sizes[i].bytes};
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](auto& r) { return r.group == wanted.group && r.gear == wanted.gear; });
    if (row == rows.end()) {
      rows.push_back(wanted);
    } else {
      ++row->tensors;
      row->bytes += wanted.bytes;
    }
  }
  return rows;
}

nlohmann::json to_json(const std::vector<GearRow>& rows) {
  nlohmann::json json = nlohmann::json::array();
  for (const GearRow& row : rows) {
    json.push_back(
        {{"group", row.group}, {"gear", row.gear}, {"tensors", row.tensors}, {"bytes", row.bytes}});
  }
  return json;
}

std::string to_text(const std::vector<GearRow>& rows) {
  std::string text;
  for (const GearRow& row : rows) {
    text += fmt::format("  {:<10} {:<5} {:>5} tensors {:>12}\n", row.group, row.gear, row.tensors,
                        size_text(row.bytes));
  }
  return text;
}

nlohmann::json to_json(const std::vector<PackedGroup>& groups) {
  nlohmann::json json = nlohmann::json::array();
  for (const PackedGroup& group : groups) {
    json.push_back({{"group", group.group},
                    {"gear", group.gear},
                    {"tensors", group.tensors},
                    {"bytes_before", group.bytes_before},
                    {"bytes_after", group.bytes_after},
                    {"relative_rms_error",
                     was_quantised(group) ? nlohmann::json(relative_error(group.error)) : nlohmann::json()}});
  }
  return json;
}

std::string to_text(const std::vector<PackedGroup>& groups) {
  static constexpr const char kRow[] = "{:<10} {:<9} {:>8} {:>12} {:>12} {:>14}\n";
  std::string text = fmt::format(kRow, "group", "gear", "tensors", "before", "after", "rel_rms_error");
  for (const PackedGroup& group : groups) {
    text += fmt::format(kRow, group.group, group.gear, group.tensors, size_text(group.bytes_before),
                        size_text(group.bytes_after),
                        was_quantised(group) ? fmt::format("{:.4f}", relative_error(group.error)) : "-");
  }
  return text;
}

}  // namespace tandem::tools
