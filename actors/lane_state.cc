#include <set>

#include <nestor/actors/error.h>
#include <nestor/actors/lane.h>

namespace nestor::actors {
namespace {

using modules::NamedTensors;

/// The parameters `names` and their moments, shared.
NamedTensors select(const modules::ParameterStore& store, const modules::Optimizer& optimizer,
                    const std::set<std::string>& names) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : store.entries())
    if (names.count(name)) tensors.emplace_back(name, tensor);
  for (const auto& [name, moment] : optimizer.state())
    if (names.count(name.substr(0, name.rfind('.')))) tensors.emplace_back(name, moment);
  return tensors;
}

NamedTensors everything(const modules::ParameterStore& store, const modules::Optimizer& optimizer) {
  NamedTensors tensors = store.entries();
  for (const auto& moment : optimizer.state()) tensors.push_back(moment);
  return tensors;
}

/// What load_into checks, before any lane has changed anything.
void check_fits(const NamedTensors& target, const NamedTensors& read, const std::string& where) {
  std::map<std::string, torch::Tensor> by_name(read.begin(), read.end());
  for (const auto& [name, tensor] : target) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw modules::Error(where, "lacks '" + name + "'", "it is of another model");
    if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type())
      throw modules::Error(where, "'" + name + "' has another shape or type than the model's",
                           "it is of another model");
  }
}

}  // namespace

modules::CheckpointFile Lane::save(const modules::CheckpointWriter& writer) const {
  if (here_.placement.owned.empty()) return {};
  const std::set<std::string> owned(here_.placement.owned.begin(), here_.placement.owned.end());
  return writer.write_lane(lane_, select(here_.store, *here_.optimizer, owned));
}

void Lane::read(const std::filesystem::path& folder) {
  read_.clear();
  const NamedTensors target = everything(here_.store, *here_.optimizer);
  std::set<std::string> names;
  for (const auto& [name, tensor] : target) names.insert(name);
  NamedTensors tensors = modules::read_checkpoint(folder, names);
  check_fits(target, tensors, folder.string());
  read_ = std::move(tensors);
}

void Lane::adopt(std::int64_t version) {
  modules::load_into(everything(here_.store, *here_.optimizer), read_, "checkpoint");
  read_.clear();
  here_.optimizer->zero_gradients();
  version_ = version;
}

NamedTensors Lane::parameters() const {
  NamedTensors copies;
  for (const std::string& name : here_.placement.owned)
    copies.emplace_back(name, here_.store.find(name).detach().clone());
  return copies;
}

NamedTensors Lane::gradients() const {
  NamedTensors copies;
  for (const std::string& name : here_.placement.owned) {
    const torch::Tensor parameter = here_.store.find(name);
    if (!parameter.requires_grad()) continue;
    copies.emplace_back(
        name, parameter.grad().defined() ? parameter.grad().detach().clone() : torch::zeros_like(parameter).detach());
  }
  return copies;
}

}  // namespace nestor::actors
