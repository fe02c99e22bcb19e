#include <charconv>
#include <cstdlib>
#include <type_traits>

#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

/// Every setting with its variable, once.
template <class Settings, class Visit>
void each(Settings& settings, Visit&& visit) {
  visit("NESTOR_HEARTBEAT_MS", settings.heartbeat);
  visit("NESTOR_SILENCE_MS", settings.silence);
  visit("NESTOR_REAP_MS", settings.reap);
  visit("NESTOR_START_MS", settings.start_limit);
  visit("NESTOR_HEAD_MS", settings.head_limit);
  visit("NESTOR_MEND_MS", settings.mend_limit);
  visit("NESTOR_RESTART_PAUSE_MS", settings.restart_pause);
  visit("NESTOR_MAX_RESTARTS", settings.max_restarts);
  visit("NESTOR_STALL_MS", settings.stall);
  visit("NESTOR_WINDOW_BYTES", settings.window_bytes);
  visit("NESTOR_TRANSPORTS", settings.transports);
  visit("NESTOR_NET_DEVICES", settings.net_devices);
  visit("NESTOR_PORT_RANGE", settings.port_range);
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

void set(const char*, std::string& value, const std::string& text) {
  value = text;
}
template <class T>
requires std::is_integral_v<T>
void set(const char* name, T& value, const std::string& text) {
  T read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size() || read < 1)
    throw InputError(name, "is \"" + text + "\"", "a whole number, at least 1");
  value = read;
}
void set(const char* name, std::chrono::milliseconds& value, const std::string& text) {
  std::int64_t count = 0;
  set(name, count, text);
  value = std::chrono::milliseconds(count);
}

}  // namespace

ClusterSettings ClusterSettings::from_environment() {
  ClusterSettings settings;
  each(settings, [](const char* name, auto& value) {
    if (const char* text = std::getenv(name); text != nullptr && *text != 0) set(name, value, text);
  });
  if (settings.silence <= settings.heartbeat)
    throw InputError("NESTOR_SILENCE_MS", "must be longer than NESTOR_HEARTBEAT_MS", "three times as long, say");
  return settings;
}

std::map<std::string, std::string> ClusterSettings::environment() const {
  std::map<std::string, std::string> defaults, changed;
  const ClusterSettings as_built;
  each(as_built, [&](const char* name, const auto& value) { defaults[name] = text_of(value); });
  each(*this, [&](const char* name, const auto& value) {
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
