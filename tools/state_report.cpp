#include "tools/state_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tandem::tools {
namespace {

/// A number that JSON has no word for is null there.
nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

nlohmann::json to_json(const StateGeometry& geometry) {
  nlohmann::json json = {{"real", name(geometry.real)}};
  if (geometry.count(LayerKind::recurrent) > 0) {
    const RecurrentDims& dims = geometry.recurrent;
    json["recurrent"] = {{"value_heads", dims.value_heads},
                         {"key_dim", dims.key_dim},
                         {"value_dim", dims.value_dim},
                         {"conv_channels", dims.conv_channels},
                         {"conv_kernel", dims.conv_kernel}};
  }
  if (geometry.count(LayerKind::attention) > 0) {
    json["kv"] = {{"kv_heads", geometry.kv.kv_heads}, {"head_dim", geometry.kv.head_dim}};
  }
  return json;
}

std::string sampling_line(const std::optional<SamplingOptions>& sampling) {
  if (!sampling) return "not given";
  return fmt::format(
      "temperature {}, top-k {}, top-p {}, seed {}, min-p {}, repeat-penalty {}, presence-penalty {}, "
      "frequency-penalty {}, repeat-last-n {}",
      sampling->temperature, sampling->top_k, sampling->top_p, sampling->seed, sampling->min_p,
      sampling->repeat_penalty, sampling->presence_penalty, sampling->frequency_penalty,
      sampling->repeat_last_n);
}

std::string geometry_lines(const StateGeometry& geometry) {
  std::string text;
  if (const std::int64_t layers = geometry.count(LayerKind::recurrent); layers > 0) {
    const RecurrentDims& dims = geometry.recurrent;
    text +=
        fmt::format("recurrent  {} layers: {} heads of {} x {}, convolution {} x {}\n", layers,
                    dims.value_heads, dims.key_dim, dims.value_dim, dims.conv_kernel - 1, dims.conv_channels);
  }
  if (const std::int64_t layers = geometry.count(LayerKind::attention); layers > 0) {
    text += fmt::format("kv         {} layers: {} heads of {}\n", layers, geometry.kv.kv_heads,
                        geometry.kv.head_dim);
  }
  return text;
}

std::int64_t count_different(const SnapshotDifference& difference) {
  return std::ranges::count_if(difference.layers, &LayerDifference::any);
}

/// "2 of 6 heads (0, 3)"
std::string heads_that_differ(const PartDifference& part) {
  std::string list;
  std::size_t count = 0;
  for (std::size_t head = 0; head < part.heads.size(); ++head) {
    if (part.heads[head].different == 0) continue;
    list += fmt::format("{}{}", count++ > 0 ? ", " : "", head);
  }
  return fmt::format("{} of {} heads ({})", count, part.heads.size(), list);
}

std::string part_line(std::size_t layer, const PartDifference& part) {
  const ElementDifference total = part.total();
  const std::string heads = part.heads.size() > 1 ? " in " + heads_that_differ(part) : "";
  return fmt::format("layer {} {}: {} of {} elements{}, max difference {:.3g}\n", layer, part.part,
                     total.different, total.elements, heads, total.largest);
}

nlohmann::json to_json(const PartDifference& part) {
  const ElementDifference total = part.total();
  nlohmann::json heads = nlohmann::json::array();
  for (std::size_t head = 0; head < part.heads.size(); ++head) {
    const ElementDifference& at = part.heads[head];
    if (at.different == 0) continue;
    heads.push_back(
        {{"head", head}, {"different", at.different}, {"max_difference", finite_or_null(at.largest)}});
  }
  return {{"part", part.part},
          {"elements", total.elements},
          {"different", total.different},
          {"max_difference", finite_or_null(total.largest)},
          {"heads", heads}};
}

}  // namespace

std::string verified_line(const Snapshot& snapshot) {
  return fmt::format("{}: {} tokens, {} to be fed next, {} layers, {} bytes, all checksums agree{}\n",
                     snapshot.where(), snapshot.contract().tokens, snapshot.pending_ids().size(),
                     snapshot.layout().layers.size(), snapshot.layout().file_bytes,
                     snapshot.unsafe() ? "; UNSAFE" : "");
}

std::string info_text(const Snapshot& snapshot) {
  const StateContract& contract = snapshot.contract();
  std::string text = verified_line(snapshot);
  text += fmt::format("format     version {}, elements {}\n", kSnapshotVersion, name(contract.geometry.real));
  text += fmt::format("arithmetic version {}\n", contract.arithmetic);
  if (snapshot.unsafe()) text += "UNSAFE     a layer went on without its state (unsafe_restart)\n";
  text += fmt::format("model      {}\n", contract.model);
  text += geometry_lines(contract.geometry);
  text += fmt::format("layouts    {}; {}; {}; heads {}\n", contract.recurrent_layout, contract.conv_layout,
                      contract.kv_layout, contract.head_order);
  text += fmt::format("sampling   {}\n", sampling_line(snapshot.sampling()));
  text += fmt::format("ids        {}\n", fmt::join(snapshot.ids(), ","));
  text += fmt::format("{:>5} {:<9} {:>14} {:>14} {}\n", "layer", "kind", "offset", "bytes", "checksum");
  for (std::size_t i = 0; i < contract.layers.size(); ++i) {
    const SnapshotLayout::Part& part = snapshot.layout().layers[i];
    text += fmt::format("{:>5} {:<9} {:>14} {:>14} {}\n", i, state_name(contract.geometry.layers[i]),
                        part.offset, part.bytes, to_string(contract.layers[i]));
  }
  return text;
}

nlohmann::json info_json(const Snapshot& snapshot) {
  const StateContract& contract = snapshot.contract();
  nlohmann::json layers = nlohmann::json::array();
  for (std::size_t i = 0; i < contract.layers.size(); ++i) {
    const SnapshotLayout::Part& part = snapshot.layout().layers[i];
    layers.push_back({{"kind", state_name(contract.geometry.layers[i])},
                      {"offset", part.offset},
                      {"bytes", part.bytes},
                      {"checksum", to_string(contract.layers[i])}});
  }
  nlohmann::json sampling;
  if (const auto& given = snapshot.sampling()) {
    sampling = {{"temperature", finite_or_null(given->temperature)},
                {"top_k", given->top_k},
                {"top_p", finite_or_null(given->top_p)},
                {"seed", given->seed},
                {"min_p", finite_or_null(given->min_p)},
                {"repeat_penalty", finite_or_null(given->repeat_penalty)},
                {"presence_penalty", finite_or_null(given->presence_penalty)},
                {"frequency_penalty", finite_or_null(given->frequency_penalty)},
                {"repeat_last_n", given->repeat_last_n}};
  }
  return {{"format_version", kSnapshotVersion},
          {"arithmetic_version", contract.arithmetic},
          {"unsafe", snapshot.unsafe()},
          {"bytes", snapshot.layout().file_bytes},
          {"tokens", contract.tokens},
          {"ids", snapshot.ids()},
          {"model", contract.model},
          {"geometry", to_json(contract.geometry)},
          {"layouts",
           {{"recurrent", contract.recurrent_layout},
            {"conv", contract.conv_layout},
            {"kv", contract.kv_layout},
            {"head_order", contract.head_order}}},
          {"sampling", sampling},
          {"layers", layers}};
}

std::string diff_text(const SnapshotDifference& difference) {
  std::string text =
      fmt::format("{} of {} layers differ\n", count_different(difference), difference.layers.size());
  if (!difference.contract.empty()) text += difference.contract + "\n";
  if (difference.first_id) text += fmt::format("ids differ from number {} on\n", *difference.first_id);
  if (difference.sampling) text += "sampling differs\n";
  if (difference.unsafe) text += "one of them is UNSAFE\n";
  for (std::size_t layer = 0; layer < difference.layers.size(); ++layer) {
    for (const PartDifference& part : difference.layers[layer].parts) {
      if (part.total().different > 0) text += part_line(layer, part);
    }
  }
  return text;
}

nlohmann::json diff_json(const SnapshotDifference& difference) {
  nlohmann::json layers = nlohmann::json::array();
  for (std::size_t layer = 0; layer < difference.layers.size(); ++layer) {
    if (!difference.layers[layer].any()) continue;
    nlohmann::json parts = nlohmann::json::array();
    for (const PartDifference& part : difference.layers[layer].parts) {
      if (part.total().different > 0) parts.push_back(to_json(part));
    }
    layers.push_back(
        {{"layer", layer}, {"kind", state_name(difference.layers[layer].kind)}, {"parts", parts}});
  }
  return {{"arithmetic_version", kArithmeticVersion},
          {"same", !difference.any()},
          {"contract", difference.contract.empty() ? nlohmann::json() : nlohmann::json(difference.contract)},
          {"first_id", difference.first_id ? nlohmann::json(*difference.first_id) : nlohmann::json()},
          {"sampling", difference.sampling},
          {"unsafe", difference.unsafe},
          {"layers", layers}};
}

}  // namespace tandem::tools
