#include <cerrno>
#include <cmath>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/metrics.h>

namespace nestor::launch {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN: a loss that is none is null, and reads back as NaN.
double number(const Json& value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

std::map<std::string, double> numbers(const Json& object) {
  std::map<std::string, double> values;
  for (const auto& [name, value] : object.items()) values[name] = number(value);
  return values;
}

StepMetrics parse_line(std::string_view line) {
  auto json = Json::parse(line);
  StepMetrics metrics;
  auto& report = metrics.report;
  report.step = json.at("step").get<std::int64_t>();
  report.loss = number(json.at("loss"));
  report.losses = numbers(json.at("losses"));
  report.grad_norm = number(json.at("grad_norm"));
  report.skipped = json.at("skipped").get<bool>();
  report.tokens = json.at("tokens").get<std::int64_t>();
  report.samples = json.at("samples").get<std::int64_t>();
  report.seconds = number(json.at("seconds"));
  report.bubble = number(json.at("bubble"));
  report.in_flight = json.at("in_flight").get<std::map<std::string, std::vector<double>>>();
  if (json.contains("eval"))
    metrics.eval = Evaluation{number(json["eval"].at("loss")), numbers(json["eval"].at("losses"))};
  return metrics;
}

}  // namespace

std::string write_metrics_line(const StepMetrics& metrics) {
  const auto& report = metrics.report;
  Json json{{"step", report.step},           {"loss", report.loss},       {"losses", report.losses},
            {"grad_norm", report.grad_norm}, {"skipped", report.skipped}, {"tokens", report.tokens},
            {"samples", report.samples},     {"seconds", report.seconds}, {"bubble", report.bubble},
            {"in_flight", report.in_flight}};
  if (metrics.eval) json["eval"] = {{"loss", metrics.eval->loss}, {"losses", metrics.eval->losses}};
  return json.dump();
}

std::vector<StepMetrics> read_metrics(std::string_view text) {
  std::vector<StepMetrics> all;
  while (!text.empty()) {
    auto end = text.find('\n');
    if (end == std::string_view::npos) break;
    try {
      all.push_back(parse_line(text.substr(0, end)));
    } catch (const Json::exception&) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  return all;
}

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t last_step) : path_(std::move(path)) {
  std::string kept;
  if (last_step > 0 && std::filesystem::exists(path_)) {
    for (auto& metrics : read_metrics(read_text(path_))) {
      if (metrics.report.step > last_step) break;
      kept += write_metrics_line(metrics) + "\n";
      last_ = std::move(metrics);
    }
  }
  write_aside(path_, kept);
}

void MetricsFile::append(StepMetrics metrics) {
  metrics.report.timeline.reset();
  auto line = write_metrics_line(metrics) + "\n";
  // One write per line: a reader that follows the file sees whole lines.
  int descriptor = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  ssize_t written = descriptor < 0 ? -1 : ::write(descriptor, line.data(), line.size());
  int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (written != static_cast<ssize_t>(line.size()))
    throw WorkError(path_.string(), "writing failed: " + (written < 0 ? std::generic_category().message(error)
                                                                      : std::string("the disk is full")));
  last_ = std::move(metrics);
}

std::vector<StepMetrics> MetricsFile::after(std::int64_t step) const {
  if (!last_ || last_->report.step <= step) return {};
  if (last_->report.step == step + 1) return {*last_};
  auto lines = read_metrics(read_text(path_));
  std::erase_if(lines, [step](const StepMetrics& line) { return line.report.step <= step; });
  return lines;
}

}  // namespace nestor::launch
