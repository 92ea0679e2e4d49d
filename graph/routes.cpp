#include "graph/routes.hpp"

namespace tandem {
namespace {

/// More homes than anybody uses in turn; beyond that plans are made anew.
constexpr std::size_t kKeptPlans = 64;

bool has_state(Part part) { return part == Part::gdn || part == Part::attention; }

}  // namespace

int Routes::place(const PlanLine& line, const std::vector<int>& homes) const {
  if (has_state(line.part)) return homes[static_cast<std::size_t>(line.layer)];
  const bool in_layer = line.layer != kNoLayer;
  const Piece piece = in_layer ? Piece(line.layer, line.part) : Piece(line.part);
  if (residents_.holds(piece, line.backend)) return line.backend;
  if (in_layer && residents_.holds(piece, homes[static_cast<std::size_t>(line.layer)]))
    return homes[static_cast<std::size_t>(line.layer)];
  for (int b = 0; b < static_cast<int>(base_.backend_names.size()); ++b) {
    if (base_.may_stand_in(b) && residents_.holds(piece, b)) return b;
  }
  return line.backend;
}

std::shared_ptr<const Plan> Routes::make(const std::vector<int>& homes) const {
  std::map<std::pair<int, Part>, int> places;
  for (const PlanLine& line : base_.lines) places[{line.layer, line.part}] = place(line, homes);
  return std::make_shared<const Plan>(rerouted(graph_, geometry_, base_, [&](int layer, Part part) {
    return places.at({layer, part});
  }));
}

std::shared_ptr<const Plan> Routes::of(const std::vector<int>& homes) {
  if (!base_.movable()) return {std::shared_ptr<const Plan>(), &base_};
  if (made_for_ != residents_.changes() || made_.size() >= kKeptPlans) made_.clear();
  made_for_ = residents_.changes();
  std::shared_ptr<const Plan>& plan = made_[homes];
  if (!plan) plan = make(homes);
  return plan;
}

}  // namespace tandem
