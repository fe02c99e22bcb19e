#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include <nestor/launch/progress.h>
#include <nestor/launch/terminal.h>

namespace nestor::launch {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kPlainLine = std::chrono::seconds(5);

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string duration_text(double seconds) {
  auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

Progress::Progress(std::string unit, std::int64_t total, std::int64_t done)
    : unit_(std::move(unit)),
      total_(total),
      done_(done),
      terminal_(::isatty(STDERR_FILENO) == 1),
      unicode_(utf8_locale()),
      last_update_(Clock::now()),
      last_draw_(last_update_) {
  const char* term = std::getenv("TERM");
  if (term && std::string_view(term) == "dumb") terminal_ = false;
}

Progress::~Progress() {
  if (!finished_) clear();
}

void Progress::update(std::int64_t done, std::string detail) {
  if (finished_) return;
  auto now = Clock::now();
  double seconds = std::chrono::duration<double>(now - last_update_).count();
  if (done > done_) {
    double pace = seconds / static_cast<double>(done - done_);
    // The first unit carries the start-up, so the second replaces it; later ones are averaged over some twenty.
    seconds_per_unit_ = drawn_ < 0 || seconds_per_unit_ == 0 ? pace : seconds_per_unit_ * 0.95 + pace * 0.05;
  }
  last_update_ = now;
  done_ = done;
  detail_ = std::move(detail);
  auto since = now - last_draw_;
  if (drawn_ < 0 || (terminal_ ? since >= kRedraw : since >= kPlainLine)) draw();
}

void Progress::note(const std::string& line) {
  clear();
  put(line + "\n");
  if (terminal_ && drawn_ >= 0 && !finished_) draw();
}

void Progress::finish() {
  if (finished_) return;
  if (drawn_ != done_ || terminal_) draw();
  if (terminal_) put("\n");
  finished_ = true;
}

std::string Progress::time_left() const {
  if (done_ >= total_ || seconds_per_unit_ <= 0) return "";
  return duration_text(static_cast<double>(total_ - done_) * seconds_per_unit_) + " left";
}

void Progress::clear() {
  if (terminal_ && drawn_ >= 0 && !finished_) put("\r\x1b[2K");
}

void Progress::draw() {
  auto left = time_left();
  std::string count = fmt::format("{} {}/{}", unit_, done_, total_);
  std::string tail = detail_ + (left.empty() || detail_.empty() ? "" : "  ") + left;
  if (terminal_) {
    // The bar takes what the figures leave, and goes first where there is no room.
    std::size_t width = terminal_width(STDERR_FILENO) - 1, figures = count.size() + tail.size() + 4;
    std::size_t bar = figures + 10 <= width ? std::min<std::size_t>(width - figures, 40) : 0;
    std::string line = count + "  ";
    if (bar) {
      double share = total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 0;
      auto full = static_cast<std::size_t>(share * static_cast<double>(bar));
      if (unicode_) line += "\x1b[36m";
      for (std::size_t i = 0; i < bar; ++i) {
        if (unicode_) {
          if (i == full) line += "\x1b[2m";
          line += "━";
        } else {
          line += i < full ? '#' : '-';
        }
      }
      if (unicode_) line += "\x1b[0m";
      line += "  ";
    }
    std::size_t room = width > count.size() + 2 ? width - count.size() - 2 : 0;
    line += bar ? tail : tail.substr(0, room);
    put("\r\x1b[2K" + line);
  } else {
    put(count + (tail.empty() ? "" : "  ") + tail + "\n");
  }
  drawn_ = done_;
  last_draw_ = Clock::now();
}

}  // namespace nestor::launch
