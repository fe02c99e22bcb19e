#include <ATen/CPUGeneratorImpl.h>

#include <nestor/modules/seed.h>

namespace nestor::modules {
namespace {

/// The finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// FNV-1a, whose weak high bits `mix` spreads.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ULL;
  return h;
}

// Names and numbers must not meet: child("1") is not child(1).
constexpr std::uint64_t kNameTag = 0x6e616d65ULL, kNumberTag = 0x6e756d62ULL;

}  // namespace

Seed Seed::child(std::string_view name) const {
  return Seed(mix(mix(value_ + kGolden) ^ mix(hash(name) + kNameTag)));
}

Seed Seed::child(std::int64_t index) const {
  return Seed(mix(mix(value_ + kGolden) ^ mix(static_cast<std::uint64_t>(index) * kGolden + kNumberTag)));
}

at::Generator Seed::generator() const {
  // LibTorch's own seeding keeps 32 bits, so that among 100,000 streams two are expected to be equal: fill the state.
  at::mt19937_data_pod state{};
  state.seed_ = value_;
  state.seeded_ = true;
  state.left_ = 1;  // the first draw mixes the whole state
  state.next_ = 0;
  std::uint64_t counter = value_;
  for (std::size_t i = 0; i < state.state_.size(); i += 2) {
    std::uint64_t word = mix(counter += kGolden);
    state.state_[i] = static_cast<std::uint32_t>(word);
    state.state_[i + 1] = static_cast<std::uint32_t>(word >> 32);
  }
  at::mt19937 engine;
  engine.set_data(state);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(value_);
  at::check_generator<at::CPUGeneratorImpl>(generator)->set_engine(engine);
  return generator;
}

Seed weight_seed(Seed run, std::string_view module) {
  return run.child("weights").child(module);
}

Seed step_seed(Seed run, std::int64_t step) {
  return run.child("step").child(step);
}

}  // namespace nestor::modules
