#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/placement.h>

namespace nestor::launch {
namespace {

constexpr double kRounding = 1e-9;  ///< ten times a tenth is one

double amount_of(const Resources& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

}  // namespace

std::string in_words(const Resources& amounts) {
  std::string words;
  for (const auto& [name, amount] : amounts) words += fmt::format("{}{:g} {}", words.empty() ? "" : ", ", amount, name);
  return words.empty() ? "nothing" : words;
}

Placement::Placement(std::vector<Host> hosts) : hosts_(std::move(hosts)), taken_(hosts_.size()) {}

Resources Placement::free(std::size_t host) const {
  Resources left = hosts_[host].offers;
  for (auto& [name, amount] : left) amount -= amount_of(taken_[host].amounts, name);
  return left;
}

std::optional<std::string> Placement::shortfall(const Resources& needs, const Resources& amounts) {
  for (const auto& [name, amount] : needs)
    if (amount > amount_of(amounts, name) + kRounding) return name;
  return std::nullopt;
}

double Placement::fullness(std::size_t host) const {
  double most = 0;
  for (const auto& [name, amount] : hosts_[host].offers)
    if (amount > 0) most = std::max(most, amount_of(taken_[host].amounts, name) / amount);
  return most;
}

std::size_t Placement::take(const std::string& actor, const Resources& needs, Place place, const std::string& on) {
  for (const auto& [name, amount] : needs)
    if (!std::isfinite(amount) || amount < 0)
      throw actors::Error(actor, fmt::format("cannot need {:g} {}", amount, name), "0 or more");
  std::vector<std::size_t> allowed, able, free_now;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (!on.empty() && hosts_[host].host != on) continue;
    allowed.push_back(host);
    if (shortfall(needs, hosts_[host].offers)) continue;
    able.push_back(host);
    if (!shortfall(needs, free(host))) free_now.push_back(host);
  }
  const auto listed = [&](const std::vector<std::size_t>& which, auto&& amounts) {
    std::string text;
    for (std::size_t host : which)
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", hosts_[host].host, in_words(amounts(host)));
    return text;
  };
  if (allowed.empty()) {
    std::string names;
    for (const Host& host : hosts_) names += (names.empty() ? "" : ", ") + host.host;
    throw actors::Error(actor, "there is no host " + on, "there are: " + names);
  }
  if (able.empty()) {
    // The one resource that comes closest says most: of each need the most that any allowed host offers.
    for (const auto& [name, amount] : needs) {
      double most = 0;
      for (std::size_t host : allowed) most = std::max(most, amount_of(hosts_[host].offers, name));
      if (amount > most + kRounding)
        throw actors::Error(actor,
                            fmt::format("needs {:g} {}, and {} offers at most {:g}", amount, name,
                                        on.empty() ? "a host of this cluster" : on, most),
                            "see hosts: resources: in the cluster file");
    }
    throw actors::Error(actor, "needs " + in_words(needs) + ", which no host offers together",
                        "hosts offer: " + listed(allowed, [&](std::size_t host) { return hosts_[host].offers; }));
  }
  if (free_now.empty())
    throw actors::Error(actor, "needs " + in_words(needs) + ", which others have taken",
                        "free: " + listed(able, [&](std::size_t host) {
                          Resources left;
                          for (const auto& [name, amount] : needs) left[name] = amount_of(free(host), name);
                          return left;
                        }));
  const auto better = [&](std::size_t a, std::size_t b) {
    if (place == Place::spread)
      return std::pair(taken_[a].actors, fullness(a)) < std::pair(taken_[b].actors, fullness(b));
    return std::pair(fullness(a), taken_[a].actors) > std::pair(fullness(b), taken_[b].actors);
  };
  const std::size_t chosen = *std::min_element(free_now.begin(), free_now.end(), better);
  for (const auto& [name, amount] : needs) taken_[chosen].amounts[name] += amount;
  ++taken_[chosen].actors;
  return chosen;
}

void Placement::give_back(std::size_t host, const Resources& needs) {
  for (const auto& [name, amount] : needs) taken_[host].amounts[name] -= amount;
  --taken_[host].actors;
}

}  // namespace nestor::launch
