#include "state/state_manager.hpp"

#include <algorithm>
#include <cassert>

#include "core/error.hpp"

namespace tandem {
namespace {

void require_backends(const StateGeometry& geometry, const std::vector<Backend*>& backends,
                      std::size_t capacities) {
  if (backends.size() != capacities) {
    fail(ErrorCode::mismatch, "state: {} backends and capacities of {}; give one for each", backends.size(),
         capacities);
  }
  for (const Backend* backend : backends) {
    if (backend == nullptr) fail(ErrorCode::invalid_argument, "state: a backend is null");
    if (backend->info().real != geometry.real) {
      fail(ErrorCode::mismatch, "state is {}, backend {} computes in {}; use one manager per element type",
           name(geometry.real), backend->info().name, name(backend->info().real));
    }
  }
}

void require_memory(const Backend& backend, const StateBudget& budget, std::int64_t bytes) {
  const auto needed = static_cast<std::uint64_t>(bytes);
  if (needed <= backend.available_bytes()) return;
  fail(ErrorCode::out_of_memory,
       "state for {} sequence{} of {} tokens: needs {} on {}, {} available; ask for a smaller context",
       budget.sequences, budget.sequences == 1 ? "" : "s", budget.context_tokens, human_bytes(needed),
       backend.info().name, human_bytes(backend.available_bytes()));
}

/// The device that state in host memory may go to, or come from. Null when there is none, or the capacities
/// are just what the layers take, so that nothing can move.
Backend* device_to_reach(const StateGeometry& geometry, const std::vector<Backend*>& backends,
                         const std::vector<LayerCapacity>& capacities) {
  Backend* device = nullptr;
  LayerCapacity room;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    room.recurrent += capacities[i].recurrent;
    room.kv += capacities[i].kv;
    const bool holds_state = capacities[i].recurrent > 0 || capacities[i].kv > 0;
    if (device == nullptr && holds_state && !backends[i]->info().host_memory) device = backends[i];
  }
  const bool can_move =
      room.recurrent > geometry.count(LayerKind::recurrent) || room.kv > geometry.count(LayerKind::attention);
  return can_move ? device : nullptr;
}

std::string list_versions(const Sequence& sequence) {
  std::string text;
  for (const Version& version : sequence.versions) {
    text +=
        fmt::format("{}{} ({} tokens)", text.empty() ? "" : ", ", version.info.number, version.info.tokens);
  }
  return text;
}

}  // namespace

StateManager::StateManager(StateGeometry geometry, std::vector<Backend*> backends,
                           std::vector<LayerCapacity> capacities, StateBudget budget)
    : geometry_(std::move(geometry)), pieces_(pieces_of(geometry_)), budget_(budget) {
  require_backends(geometry_, backends, capacities.size());
  std::vector<PoolSizes> sizes;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    sizes.push_back(pool_sizes(geometry_, capacities[i], budget_));
    require_memory(*backends[i], budget_, sizes[i].bytes);
  }
  Backend* const device = device_to_reach(geometry_, backends, capacities);
  for (std::size_t i = 0; i < backends.size(); ++i) {
    places_.emplace_back(*backends[i], geometry_, capacities[i], sizes[i],
                         backends[i]->info().host_memory ? device : nullptr, budget_);
  }
}

StateManager::~StateManager() {
  assert(std::none_of(entries_.begin(), entries_.end(),
                      [](const Entry& entry) { return entry.sequence && !entry.sequence->next.empty(); }));
}

std::vector<StateUsage> StateManager::usage() const {
  std::vector<StateUsage> all;
  for (const Place& place : places_) {
    const SlotPool& slots = place.slots;
    const PagePool& pages = place.pages;
    all.push_back({.backend = place.backend->info().name,
                   .reserved_bytes = slots.reserved_bytes() + pages.reserved_bytes(),
                   .used_bytes = slots.used() * slots.slot_bytes() + pages.used() * pages.page_stride(),
                   .slots_total = slots.total(),
                   .slots_used = slots.used(),
                   .pages_total = pages.total(),
                   .pages_used = pages.used()});
  }
  return all;
}

SequenceId StateManager::open(const SequenceOptions& options) {
  require_homes(options);
  Sequence sequence;
  sequence.residency = options.residency;
  sequence.home = options.home;
  sequence.unsafe = options.unsafe;
  sequence.spare = options.rebuild && has_spare_place(options);
  sequence.pages.resize(geometry_.layers.size());
  sequence.versions.push_back(zero_version(sequence));
  ++sequence.next_number;
  return admit(std::move(sequence));
}

SequenceId StateManager::fork(SequenceId id) {
  Sequence copy(find_idle(id, "fork it"));
  copy.spare = false;
  return admit(std::move(copy));
}

StateStep StateManager::begin(SequenceId id, std::int64_t tokens, std::int64_t versions) {
  Sequence& sequence = find_idle(id, "begin another");
  require_room(sequence, tokens);
  require_versions(tokens, versions);
  std::vector<Version> next = reserve_versions(sequence, tokens, versions);
  sequence.versions.reserve(sequence.versions.size() + next.size());
  std::vector<PageGrowth> growth = reserve_pages(sequence, tokens);
  // From here on nothing throws.
  for (std::size_t layer = 0; layer < growth.size(); ++layer) {
    PageList& pages = sequence.pages[layer];
    if (growth[layer].copy) pages.replace(pages.size() - 1, std::move(growth[layer].copy));
    for (BlockRef& page : growth[layer].fresh) pages.append(std::move(page));
  }
  sequence.next = std::move(next);
  return StateStep(*this, sequence);
}

void StateManager::rollback(SequenceId id, std::int64_t version) {
  Sequence& sequence = find_idle(id, "roll it back");
  const Version* target = &find_version(sequence, version);
  sequence.keep_oldest(target - sequence.versions.data() + 1, geometry_);
}

void StateManager::reset(SequenceId id) {
  Sequence& sequence = find_idle(id, "reset it");
  Version zero = zero_version(sequence);
  sequence.versions.front() = std::move(zero);
  sequence.keep_oldest(1, geometry_);
  ++sequence.next_number;
}

void StateManager::replace(SequenceId id, SequenceId rebuilt, Older older) {
  Sequence& old = find_idle(id, "replace it");
  Sequence& fresh = find_idle(rebuilt, "replace another with it");
  if (&old == &fresh) fail(ErrorCode::invalid_argument, "sequence {} replaced by itself", to_string(id));
  if (old.residency != fresh.residency || old.newest().info.tokens != fresh.newest().info.tokens) {
    fail(ErrorCode::mismatch, "sequence {} of {} tokens cannot replace sequence {} of {}", to_string(rebuilt),
         fresh.newest().info.tokens, to_string(id), old.newest().info.tokens);
  }
  // A rebuilt sequence that did not begin with the first token has its beginning and then what it began with.
  const bool has_beginning = fresh.versions.front().info.tokens == 0 && fresh.versions.size() > 1;
  const std::int64_t first = fresh.versions[has_beginning ? 1 : 0].info.tokens;
  std::vector<Version> versions;
  for (const Version& version : old.versions) {
    if (version.info.tokens == 0) {
      versions.push_back({version.info, zero_version(fresh).slots});
      continue;
    }
    if (older == Older::forgotten && version.info.tokens < first) continue;
    const auto same = std::find_if(fresh.versions.begin(), fresh.versions.end(),
                                   [&](const Version& v) { return v.info.tokens == version.info.tokens; });
    if (same == fresh.versions.end()) {
      fail(ErrorCode::mismatch, "sequence {} cannot replace sequence {}: it has no version of {} tokens",
           to_string(rebuilt), to_string(id), version.info.tokens);
    }
    versions.push_back({version.info, same->slots});
  }
  // From here on nothing throws.
  old.versions = std::move(versions);
  old.pages = std::move(fresh.pages);
  old.home = std::move(fresh.home);
  entries_[rebuilt.index].sequence.reset();
}

void StateManager::close(SequenceId id) {
  find_idle(id, "close it");
  entries_[id.index].sequence.reset();
}

bool StateManager::is_open(SequenceId id) const {
  const bool known = id.index >= 0 && id.index < static_cast<std::int64_t>(entries_.size());
  if (!known) return false;
  const Entry& entry = entries_[id.index];
  return entry.generation == id.generation && entry.sequence != nullptr;
}

std::vector<VersionInfo> StateManager::versions(SequenceId id) const {
  std::vector<VersionInfo> infos;
  for (const Version& version : find(id).versions) infos.push_back(version.info);
  return infos;
}

std::int64_t StateManager::tokens(SequenceId id) const { return find(id).newest().info.tokens; }

Residency StateManager::residency(SequenceId id) const { return find(id).residency; }

int StateManager::home(SequenceId id, int layer) const {
  const Sequence& sequence = find(id);
  require_layer(layer);
  return sequence.home[layer];
}

LayerView StateManager::view(SequenceId id, int layer, std::optional<std::int64_t> number) const {
  const Sequence& sequence = find(id);
  require_layer(layer);
  const Version& version = number ? find_version(sequence, *number) : sequence.newest();
  return view_of(sequence, version, layer);
}

LayerView StateManager::view_of(const Sequence& sequence, const Version& version, int layer) const {
  LayerView view{.kind = geometry_.layers[layer],
                 .pieces = &pieces(layer),
                 .backend = places_[sequence.home[layer]].backend,
                 .tokens = version.info.tokens,
                 .slot = nullptr,
                 .pages = {}};
  if (view.pieces->has(Storage::slot)) view.slot = version.slots[layer].data();
  if (view.pieces->has(Storage::pages))
    view.pages = sequence.pages[layer].data().first(geometry_.pages_for(view.tokens));
  return view;
}

const Sequence& StateManager::find(SequenceId id) const {
  const bool known = id.index >= 0 && id.index < static_cast<std::int64_t>(entries_.size()) &&
                     id.generation > 0 && id.generation <= entries_[id.index].generation;
  if (!known) fail(ErrorCode::not_found, "sequence {} was never opened here", to_string(id));
  const Entry& entry = entries_[id.index];
  if (entry.generation != id.generation || !entry.sequence) {
    fail(ErrorCode::not_found, "sequence {} was closed; open another", to_string(id));
  }
  return *entry.sequence;
}

Sequence& StateManager::find_idle(SequenceId id, std::string_view verb) {
  find(id);
  Sequence& sequence = *entries_[id.index].sequence;
  if (!sequence.next.empty()) {
    fail(ErrorCode::invalid_argument,
         "sequence {} has an open step of {} tokens at {}; commit or drop it to {}", to_string(id),
         sequence.next.back().info.tokens - sequence.newest().info.tokens, sequence.newest().info.tokens,
         verb);
  }
  return sequence;
}

const Version& StateManager::find_version(const Sequence& sequence, std::int64_t number) const {
  const Version* version = sequence.find(number);
  if (version == nullptr) {
    fail(ErrorCode::not_found, "version {} of sequence {} is not kept; kept are {}", number,
         to_string(sequence.id), list_versions(sequence));
  }
  return *version;
}

void StateManager::require_layer(int layer) const {
  if (layer < 0 || layer >= layer_count()) {
    fail(ErrorCode::invalid_argument, "layer {} does not exist: there are {}, from 0", layer, layer_count());
  }
}

void StateManager::require_resident(const Sequence& sequence, int layer, int backend, LayerKind kind) const {
  require_layer(layer);
  if (geometry_.layers[layer] != kind) {
    fail(ErrorCode::invalid_argument, "layer {} has state of kind {}, asked for as {}", layer,
         state_name(geometry_.layers[layer]), state_name(kind));
  }
  if (backend < 0 || backend >= static_cast<int>(places_.size())) {
    fail(ErrorCode::invalid_argument, "backend {} does not exist: there are {}, from 0", backend,
         places_.size());
  }
  if (const int home = sequence.home[layer]; home != backend) {
    fail(ErrorCode::not_resident,
         "layer {} of sequence {}: its state lives on {}, asked for on {}; run it there or migrate it first",
         layer, to_string(sequence.id), backend_name(home), backend_name(backend));
  }
}

void StateManager::require_homes(const SequenceOptions& options) const {
  if (options.home.size() != geometry_.layers.size()) {
    fail(ErrorCode::mismatch, "{} homes for {} layers; give one for each", options.home.size(),
         layer_count());
  }
  std::vector<LayerCapacity> used(places_.size());
  for (int layer = 0; layer < layer_count(); ++layer) {
    const int home = options.home[layer];
    if (home < 0 || home >= static_cast<int>(places_.size())) {
      fail(ErrorCode::invalid_argument, "home of layer {} is backend {}: there are {}, from 0", layer, home,
           places_.size());
    }
    if (options.residency == Residency::uniform && home != options.home[0]) {
      fail(ErrorCode::mismatch,
           "uniform residency: layer 0 lives on {}, layer {} on {}; give all layers one home or ask for "
           "per_layer",
           backend_name(options.home[0]), layer, backend_name(home));
    }
    const bool recurrent = geometry_.layers[layer] == LayerKind::recurrent;
    const LayerCapacity& capacity = places_[home].capacity;
    const std::int64_t room = recurrent ? capacity.recurrent : capacity.kv;
    if (++(recurrent ? used[home].recurrent : used[home].kv) > room) {
      fail(ErrorCode::out_of_memory,
           "layer {} on {}: there is room for {} {} layers of a sequence there; move some away", layer,
           backend_name(home), room, state_name(geometry_.layers[layer]));
    }
  }
}

void StateManager::require_room(const Sequence& sequence, std::int64_t tokens) const {
  if (tokens < 1) fail(ErrorCode::invalid_argument, "a step of {} tokens: expected at least 1", tokens);
  const std::int64_t position = sequence.newest().info.tokens;
  if (tokens > budget_.context_tokens - position) {
    fail(ErrorCode::invalid_argument,
         "sequence {} has {} tokens, {} more were asked for: its context is limited to {}",
         to_string(sequence.id), position, tokens, budget_.context_tokens);
  }
}

void StateManager::require_versions(std::int64_t tokens, std::int64_t versions) const {
  if (versions < 1 || versions > tokens || versions > budget_.step_versions) {
    fail(ErrorCode::invalid_argument,
         "a step of {} tokens that keeps {} versions: expected 1 to {}, as it has {} tokens and the budget "
         "allows {}",
         tokens, versions, std::min(tokens, budget_.step_versions), tokens, budget_.step_versions);
  }
}

/// Of 0 tokens; the next number is for the caller to take.
Version StateManager::zero_version(const Sequence& sequence) const {
  Version version{{.number = sequence.next_number, .tokens = 0},
                  std::vector<BlockRef>(geometry_.layers.size())};
  for (int layer = 0; layer < layer_count(); ++layer) {
    if (pieces(layer).has(Storage::slot)) {
      version.slots[layer] = places_[sequence.home[layer]].slots.zero();
    }
  }
  return version;
}

bool StateManager::has_spare_place(const SequenceOptions& options) const {
  std::int64_t spare = options.home.empty() ? 0 : budget_.sequences;
  for (int home : options.home) spare = std::min(spare, places_[home].capacity.spare);
  const auto taken = std::count_if(entries_.begin(), entries_.end(),
                                   [](const Entry& e) { return e.sequence && e.sequence->spare; });
  return taken < spare;
}

SequenceId StateManager::admit(Sequence sequence) {
  const auto open = std::count_if(entries_.begin(), entries_.end(),
                                  [](const Entry& e) { return e.sequence && !e.sequence->spare; });
  if (!sequence.spare && open == budget_.sequences) {
    fail(ErrorCode::out_of_memory, "all {} sequences of the state budget are open; close one or ask for more",
         budget_.sequences);
  }
  auto entry = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.sequence; });
  if (entry == entries_.end()) entry = entries_.emplace(entry);
  auto held = std::make_unique<Sequence>(std::move(sequence));
  held->id = {.index = entry - entries_.begin(), .generation = ++entry->generation};
  entry->sequence = std::move(held);
  return entry->sequence->id;
}

Version StateManager::reserve_version(const Sequence& sequence, const VersionInfo& info) {
  Version next{info, std::vector<BlockRef>(geometry_.layers.size())};
  for (int layer = 0; layer < layer_count(); ++layer) {
    if (pieces(layer).has(Storage::slot)) {
      next.slots[layer] = places_[sequence.home[layer]].slots.acquire();
    }
  }
  return next;
}

std::vector<Version> StateManager::reserve_versions(const Sequence& sequence, std::int64_t tokens,
                                                    std::int64_t versions) {
  const std::int64_t first = sequence.newest().info.tokens + tokens - versions + 1;
  std::vector<Version> next;
  for (std::int64_t i = 0; i < versions; ++i) {
    next.push_back(reserve_version(sequence, {.number = sequence.next_number + i, .tokens = first + i}));
  }
  return next;
}

/// Also makes room in the lists themselves, which nobody can see.
std::vector<StateManager::PageGrowth> StateManager::reserve_pages(Sequence& sequence, std::int64_t tokens) {
  std::vector<PageGrowth> growth(geometry_.layers.size());
  for (int layer = 0; layer < layer_count(); ++layer) {
    if (!pieces(layer).has(Storage::pages)) continue;
    const std::int64_t position = sequence.newest().info.tokens;
    const std::int64_t pages = geometry_.pages_for(position + tokens);
    PagePool& pool = places_[sequence.home[layer]].pages;
    PageList& list = sequence.pages[layer];
    list.reserve(pages);
    for (std::int64_t page = list.size(); page < pages; ++page) growth[layer].fresh.push_back(pool.acquire());
    // Only the last page can be both there already and written by this step.
    if (position % geometry_.kv.page_tokens == 0 || !list[list.size() - 1].shared()) continue;
    growth[layer].copy = pool.acquire();
    pool.copy(growth[layer].copy, list[list.size() - 1]);
  }
  return growth;
}

}  // namespace tandem
