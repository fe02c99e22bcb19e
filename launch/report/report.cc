#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include <nestor/launch/progress.h>
#include <nestor/launch/report/chart.h>
#include <nestor/launch/report/markup.h>
#include <nestor/launch/report/report.h>
#include <nestor/launch/report/style.h>
#include <nestor/scheduler/render/html.h>
#include <nestor/scheduler/render/svg.h>

namespace nestor::launch {
namespace {

using Points = std::vector<std::pair<double, double>>;

template <class Value>
Points over_steps(const std::vector<StepMetrics>& metrics, Value value) {
  Points points;
  points.reserve(metrics.size());
  for (const auto& line : metrics) points.emplace_back(static_cast<double>(line.report.step), value(line));
  return points;
}

double mean_of_last(const Points& points, std::size_t count) {
  double sum = 0;
  std::size_t n = 0;
  for (auto it = points.rbegin(); it != points.rend() && n < count; ++it)
    if (std::isfinite(it->second)) sum += it->second, ++n;
  return n ? sum / static_cast<double>(n) : std::nan("");
}

double median(Points points) {
  std::erase_if(points, [](auto& p) { return !std::isfinite(p.second); });
  if (points.empty()) return std::nan("");
  auto middle = points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2);
  std::nth_element(points.begin(), middle, points.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return middle->second;
}

std::string card(const std::string& value, const std::string& unit, const std::string& label) {
  return fmt::format(R"html(<div class="card"><b>{}{}</b><span>{}</span></div>)html", value,
                     unit.empty() ? "" : " <small>" + unit + "</small>", label);
}

std::string cards(const ReportData& data) {
  const auto& metrics = data.metrics;
  std::string out;
  auto steps = metrics.empty() ? 0 : metrics.back().report.step;
  out += card(std::to_string(steps), steps < data.steps_planned ? fmt::format("of {}", data.steps_planned) : "",
              "steps trained");
  if (metrics.empty()) return out;
  auto window = std::max<std::size_t>(1, std::min<std::size_t>(20, metrics.size() / 5));
  for (const auto& [name, last] : metrics.back().report.losses)
    out += card(short_number(mean_of_last(over_steps(metrics,
                                                     [&](auto& m) {
                                                       auto found = m.report.losses.find(name);
                                                       return found == m.report.losses.end() ? NAN : found->second;
                                                     }),
                                          window)),
                "", escape_html(name) + " loss at the end");
  auto evaluated = std::find_if(metrics.rbegin(), metrics.rend(), [](auto& m) { return m.eval.has_value(); });
  if (evaluated != metrics.rend()) out += card(short_number(evaluated->eval->loss), "", "loss on held-out samples");
  if (data.read_total > 0)
    out += card(std::to_string(data.read_right), fmt::format("of {}", data.read_total), "names read right");
  if (data.held_out_total > 0)
    out += card(std::to_string(data.held_out_right), fmt::format("of {}", data.held_out_total),
                "held-out names read right");
  double seconds = median(over_steps(metrics, [](auto& m) { return m.report.seconds; }));
  double samples = mean_of_last(over_steps(metrics, [](auto& m) { return static_cast<double>(m.report.samples); }), 50);
  if (seconds > 0) {
    out += card(short_number(samples / seconds), "/s",
                fmt::format("samples; a step takes {} ms (median)", short_number(seconds * 1e3)));
  }
  if (data.plan)
    out += card(short_number(100 * median(over_steps(metrics, [](auto& m) { return m.report.bubble; }))), "%",
                "bubble: idle share of the lanes");
  return out;
}

std::string loss_charts(const std::vector<StepMetrics>& metrics) {
  std::set<std::string> names;
  for (const auto& line : metrics)
    for (const auto& [name, loss] : line.report.losses) names.insert(name);
  std::string out;
  int colour = 0;
  auto chart = [&](const std::string& title, auto train, auto eval) {
    auto points = over_steps(metrics, train);
    double low = INFINITY, high = -INFINITY;
    for (auto [step, loss] : points)
      if (std::isfinite(loss)) low = std::min(low, loss), high = std::max(high, loss);
    ++colour;
    auto smoothed = smooth(points, std::max(1.0, static_cast<double>(points.size()) / 60));
    std::vector<Series> series{{"", points, Series::Style::faint, colour},
                               {"training", smoothed, Series::Style::line, colour}};
    Points held_out;
    for (const auto& line : metrics)
      if (line.eval) held_out.emplace_back(static_cast<double>(line.report.step), eval(line));
    if (!held_out.empty()) series.push_back({"held out", held_out, Series::Style::dots, colour});
    out += line_chart({title, "step", "", low > 0 && high / low > 30}, series);
  };
  auto entry = [](const std::map<std::string, double>& losses, const std::string& name) {
    auto found = losses.find(name);
    return found == losses.end() ? std::nan("") : found->second;
  };
  for (const auto& name : names)
    chart(
        "Loss: " + name, [&](const StepMetrics& m) { return entry(m.report.losses, name); },
        [&](const StepMetrics& m) { return entry(m.eval->losses, name); });
  if (names.size() > 1)
    chart(
        "Loss: weighted total", [](const StepMetrics& m) { return m.report.loss; },
        [](const StepMetrics& m) { return m.eval->loss; });
  auto norm = over_steps(metrics, [](auto& m) { return m.report.grad_norm; });
  auto smoothed = smooth(norm, std::max(1.0, static_cast<double>(norm.size()) / 60));
  return out + line_chart({"Gradient norm, before clipping", "step", "", false, true},
                          {{"", norm, Series::Style::faint, 7}, {"all modules", smoothed, Series::Style::line, 7}});
}

std::string speed_charts(const std::vector<StepMetrics>& metrics, bool pipelined) {
  auto seconds = over_steps(metrics, [](auto& m) { return m.report.seconds * 1e3; });
  auto bubble = over_steps(metrics, [](auto& m) { return m.report.bubble * 100; });
  double window = std::max(1.0, static_cast<double>(metrics.size()) / 60);
  auto pair = [&](const std::string& name, const Points& points, int colour) {
    return std::vector<Series>{{"", points, Series::Style::faint, colour},
                               {name, smooth(points, window), Series::Style::line, colour}};
  };
  std::string out = line_chart({"Step time", "step", "ms", false, true}, pair("milliseconds", seconds, 3));
  if (pipelined) out += line_chart({"Bubble", "step", "%", false, true}, pair("idle share, percent", bubble, 4));
  return out;
}

std::string samples(const ReportData& data) {
  std::string out;
  if (!data.readings.empty()) {
    out +=
        "<h2>Names it reads</h2><p>Each picture goes through the encoder and the LLM; the name is decoded greedily."
        "</p><div class=\"tiles\">";
    for (const auto& reading : data.readings)
      out +=
          fmt::format(R"html(<div class="tile"><img alt="{0}" src="{1}"><p class="name {2}">{3} {4}</p>{5}</div>)html",
                      escape_html(reading.truth), data_uri(reading.png, "image/png"), reading.right ? "right" : "wrong",
                      reading.right ? "✓" : "✗", reading.read.empty() ? "(nothing)" : escape_html(reading.read),
                      reading.right ? "" : "<p class=\"muted\">is: " + escape_html(reading.truth) + "</p>");
    out += "</div>";
  }
  if (!data.drawings.empty()) {
    out +=
        "<h2>Pictures it draws</h2><p>The name goes through the LLM; the generator starts from noise and follows the "
        "learnt flow. Left the true picture, right the drawn one.</p><div class=\"tiles\">";
    for (const auto& drawing : data.drawings) {
      out += R"html(<div class="tile"><div class="pair">)html";
      if (!drawing.truth_png.empty())
        out += fmt::format(R"html(<div><img alt="true picture" src="{}">true</div>)html",
                           data_uri(drawing.truth_png, "image/png"));
      out += fmt::format(R"html(<div><img alt="drawn picture" src="{}">drawn</div>)html",
                         data_uri(drawing.drawn_png, "image/png"));
      out += fmt::format(R"html(</div><p class="name">{}</p></div>)html", escape_html(drawing.text));
    }
    out += "</div>";
  }
  return out;
}

std::string peak_table(const ReportData& data) {
  if (!data.plan || data.metrics.empty()) return "";
  // The highest of the run beside the last plan's: a plan may change from step to step with what a batch holds.
  std::map<std::string, std::vector<double>> measured;
  for (const auto& line : data.metrics)
    for (const auto& [module, lanes] : line.report.in_flight) {
      auto& peak = measured[module];
      peak.resize(std::max(peak.size(), lanes.size()), 0);
      for (std::size_t i = 0; i < lanes.size(); ++i) peak[i] = std::max(peak[i], lanes[i]);
    }
  auto list = [](const std::vector<double>& values) {
    std::string out;
    for (double value : values) out += (out.empty() ? "" : ", ") + fmt::format("{:.4g}", value);
    return out.empty() ? std::string("–") : out;
  };
  std::string out =
      "<table><tr><th>module</th><th>planned peak, by lane</th><th>measured peak of the run, by lane</th></tr>";
  const auto& plan = *data.plan;
  for (std::size_t module = 0; module < plan.in_flight.size(); ++module) {
    auto name = std::string(plan.workload.name(scheduler::ModuleId(static_cast<std::int64_t>(module))));
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", escape_html(name), list(plan.in_flight[module]),
                       list(measured[name]));
  }
  return "<figure class=\"panel wide peaks\"><figcaption><b>Peaks, in microbatches</b></figcaption>" + out +
         "</table></figure>";
}

}  // namespace

std::string write_report(const ReportData& data) {
  std::string body = fmt::format(
      R"html(<header><div class="kicker">Nestor training run</div><h1>{}</h1><p>{}</p><div class="cards">{}</div></header>)html",
      escape_html(data.title), escape_html(data.description), cards(data));

  if (!data.metrics.empty())
    body +=
        "<h2>Loss</h2><p>Faint: every step. Strong: its moving average. Rings: the held-out split.</p>"
        "<div class=\"grid2\">" +
        loss_charts(data.metrics) + "</div>";
  body += samples(data);

  std::vector<scheduler::Timeline> timelines;
  if (data.plan) timelines.push_back(scheduler::planned_timeline(*data.plan));
  if (data.measured) timelines.push_back(*data.measured);
  if (!timelines.empty())
    body +=
        "<h2>One step on the lanes</h2><p>Above the plan with the costs it was made with, below the step as it ran: "
        "the order of operators is the same, times differ. The strips show the activations in flight: microbatches "
        "whose forward has begun and whose backward has not ended. Nesting keeps them bounded however many "
        "microbatches a step has.</p><div class=\"panel\">" +
        scheduler::timeline_section(timelines) + "</div>" + peak_table(data);
  if (data.metrics.size() > 1)
    body +=
        "<h2>Speed</h2><p>Over the run. The first step is slower: memory is allocated and the plan's costs are not "
        "measured yet.</p><div class=\"grid2\">" +
        speed_charts(data.metrics, data.plan != nullptr) + "</div>";
  if (!data.config.empty())
    body += "<details><summary>Configuration</summary><pre>" + escape_html(data.config) + "</pre></details>";
  body +=
      "<footer>Made by nestor. The same figures are in metrics.jsonl, plan.json, timeline.json and, for Perfetto, "
      "trace.json beside this page.</footer>";

  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{} · Nestor</title><style>{}</style></head><body><main>{}"
      "</main><script>{}</script></body></html>\n",
      escape_html(data.title), scheduler::svg_style() + std::string(kReportStyle), body, kReportScript);
}

}  // namespace nestor::launch
