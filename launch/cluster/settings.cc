#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

/// Every setting with its variable and what it means, once.
template <class Settings, class Visit>
void each(Settings& settings, Visit&& visit) {
  visit("NESTOR_HEARTBEAT_MS", settings.heartbeat, "Sign of life on an idle link");
  visit("NESTOR_SILENCE_MS", settings.silence, "A process silent for so long is lost");
  visit("NESTOR_REAP_MS", settings.reap, "How long a lost process's exit cause is waited for");
  visit("NESTOR_START_MS", settings.start_limit, "A process that has not joined by then is started anew");
  visit("NESTOR_HEAD_MS", settings.head_limit, "Agents and workers end so long after the head");
  visit("NESTOR_MEND_MS", settings.mend_limit,
        "A job waits so long for its lanes, then goes on with those that are left");
  visit("NESTOR_RESTART_PAUSE_MS", settings.restart_pause, "Before a restart; longer where a process dies at once");
  visit("NESTOR_MAX_RESTARTS", settings.max_restarts, "Of one process");
  visit("NESTOR_STALL_MS", settings.stall, "A lane that takes no bytes for so long is given up");
  visit("NESTOR_WINDOW_BYTES", settings.window_bytes, "Under way from one lane to another");
  visit("NESTOR_TRANSPORTS", settings.transports, "UCX's, e.g. tcp,self; by the hosts where not given");
  visit("NESTOR_NET_DEVICES", settings.net_devices, "Devices that UCX may use, e.g. eth1");
  visit("NESTOR_PORT_RANGE", settings.port_range, "TCP ports that UCX may use, e.g. 47000-47100");
}

/// NESTOR_SILENCE_MS: --silence-ms
std::string option_of(std::string_view variable) {
  std::string option = "--";
  for (const char c : variable.substr(std::string_view("NESTOR_").size()))
    option += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return option;
}

std::string text_of(const std::string& value) {
  return value;
}
std::string text_of(std::chrono::milliseconds value) {
  return std::to_string(value.count());
}
template <class T>
requires std::is_integral_v<T> std::string text_of(T value) {
  return std::to_string(value);
}

void set(const std::string&, std::string& value, const std::string& text) {
  value = text;
}
template <class T>
requires std::is_integral_v<T>
void set(const std::string& name, T& value, const std::string& text) {
  T read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size() || read < 1)
    throw InputError(name, "is \"" + text + "\"", "a whole number, at least 1");
  value = read;
}
void set(const std::string& name, std::chrono::milliseconds& value, const std::string& text) {
  std::int64_t count = 0;
  set(name, count, text);
  value = std::chrono::milliseconds(count);
}

/// UCX takes what is none for "any port".
void check_ports(const std::string& name, const std::string& range) {
  if (range.empty()) return;
  std::uint16_t first = 0, last = 0;
  const char* const end = range.data() + range.size();
  const auto low = std::from_chars(range.data(), end, first);
  const auto high = low.ec == std::errc() && low.ptr != end && *low.ptr == '-'
                        ? std::from_chars(low.ptr + 1, end, last)
                        : std::from_chars_result{low.ptr, std::errc::invalid_argument};
  if (high.ec != std::errc() || high.ptr != end || first == 0 || last < first)
    throw InputError(name, "is \"" + range + "\"", "FIRST-LAST within 1 to 65535, e.g. 47000-47100");
}

}  // namespace

std::vector<ClusterSettings::Name> ClusterSettings::names() {
  std::vector<Name> names;
  const ClusterSettings as_built;
  each(as_built, [&](const char* variable, const auto& value, const char* meaning) {
    names.push_back({variable, option_of(variable), meaning, text_of(value)});
  });
  return names;
}

ClusterSettings ClusterSettings::from_environment(const std::map<std::string, std::string>& given) {
  ClusterSettings settings;
  each(settings, [&](const char* variable, auto& value, const char*) {
    if (const auto option = given.find(variable); option != given.end()) {
      set(option_of(variable), value, option->second);
    } else if (const char* text = std::getenv(variable); text != nullptr && *text != 0) {
      set(variable, value, text);
    }
  });
  const auto name_of = [&](const char* variable) { return given.contains(variable) ? option_of(variable) : variable; };
  check_ports(name_of("NESTOR_PORT_RANGE"), settings.port_range);
  if (settings.silence <= settings.heartbeat)
    throw InputError(name_of("NESTOR_SILENCE_MS"), "must be longer than NESTOR_HEARTBEAT_MS",
                     "three times as long, say");
  return settings;
}

std::map<std::string, std::string> ClusterSettings::environment() const {
  std::map<std::string, std::string> defaults, changed;
  const ClusterSettings as_built;
  each(as_built, [&](const char* name, const auto& value, const char*) { defaults[name] = text_of(value); });
  each(*this, [&](const char* name, const auto& value, const char*) {
    if (const std::string text = text_of(value); text != defaults[name]) changed[name] = text;
  });
  return changed;
}

comm::LinkOptions ClusterSettings::link() const {
  comm::LinkOptions options;
  options.heartbeat = heartbeat;
  options.timeout = silence;
  return options;
}

comm::UcxOptions ClusterSettings::ucx(std::uint64_t secret) const {
  comm::UcxOptions options;
  options.transports = transports;
  options.net_devices = net_devices;
  options.port_range = port_range;
  options.secret = secret;
  options.window = static_cast<std::size_t>(window_bytes);
  options.stall = stall;
  return options;
}

}  // namespace nestor::launch
