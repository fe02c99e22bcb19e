#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <readline/history.h>
#include <readline/readline.h>
#include <sys/stat.h>

#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/driver/lines.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

constexpr int kKeptLines = 1000;

class TerminalLines;
// The library is one per process and calls functions without an argument of ours: this is whom they are for.
std::atomic<TerminalLines*> typing{nullptr};

class TerminalLines final : public LineSource {
 public:
  TerminalLines(std::string prompt, std::filesystem::path history, Completion completion, Interrupts& interrupts)
      : prompt_(std::move(prompt)),
        history_(std::move(history)),
        completion_(std::move(completion)),
        interrupts_(interrupts) {
    TerminalLines* none = nullptr;
    if (!typing.compare_exchange_strong(none, this))
      throw WorkError("driver", "another session of this process has the terminal");
    rl_readline_name = "nestor";
    rl_attempted_completion_function = complete;
    rl_completer_quote_characters = "\"'";
    rl_signal_event_hook = signalled;
    using_history();
    stifle_history(kKeptLines);
    if (!history_.empty()) read_history(history_.c_str());
  }
  ~TerminalLines() override {
    if (!history_.empty()) {
      const mode_t before = ::umask(0077);
      write_history(history_.c_str());
      ::umask(before);
    }
    clear_history();
    rl_attempted_completion_function = nullptr;
    rl_signal_event_hook = nullptr;
    typing = nullptr;
  }
  TerminalLines(const TerminalLines&) = delete;
  TerminalLines& operator=(const TerminalLines&) = delete;

  bool interactive() const override { return true; }

  std::optional<std::string> next() override {
    if (interrupts_.requested() == SIGTERM) return std::nullopt;
    char* const typed = ::readline(prompt_.c_str());
    if (typed == nullptr) {
      std::fputs("\n", stdout);
      return std::nullopt;
    }
    std::string line = typed;
    std::free(typed);
    if (interrupts_.requested() == SIGTERM) return std::nullopt;
    line.erase(line.find_last_not_of(" \t") + 1);  // completion leaves a blank
    if (!line.empty()) add_history(line.c_str());
    return line;
  }

 private:
  /// Ctrl-C at the prompt: a new line. SIGTERM: the end.
  static int signalled() {
    std::fputs("\n", stdout);
    rl_replace_line("", 0);
    rl_on_new_line();
    rl_redisplay();
    if (typing.load()->interrupts_.requested() == SIGTERM) rl_done = 1;
    return 0;
  }

  static char** complete(const char*, int start, int end) {
    TerminalLines& me = *typing.load();
    me.line_ = std::string(rl_line_buffer, static_cast<std::size_t>(end));
    static_cast<void>(start);
    if (me.completion_.files(me.line_)) return nullptr;  // the library's own
    rl_attempted_completion_over = 1;
    me.names_.clear();
    try {
      me.names_ = me.completion_.names(me.line_);
    } catch (const std::exception&) {
      // A job that does not answer has no names to offer.
    }
    if (!me.names_.empty() && me.names_[0].ends_with('=')) rl_completion_suppress_append = 1;
    return rl_completion_matches("", [](const char*, int state) -> char* {
      TerminalLines& me = *typing.load();
      const auto at = state == 0 ? (me.next_name_ = 0) : ++me.next_name_;
      return at < me.names_.size() ? ::strdup(me.names_[at].c_str()) : nullptr;
    });
  }

  const std::string prompt_;
  const std::filesystem::path history_;
  const Completion completion_;
  Interrupts& interrupts_;
  std::string line_;
  std::vector<std::string> names_;
  std::size_t next_name_ = 0;
};

}  // namespace

std::unique_ptr<LineSource> terminal_lines(std::string prompt, std::filesystem::path history, Completion completion,
                                           Interrupts& interrupts) {
  return std::make_unique<TerminalLines>(std::move(prompt), std::move(history), std::move(completion), interrupts);
}

std::filesystem::path driver_history_file() {
  std::error_code error;
  const std::filesystem::path home = ClusterFolder::home();
  if (std::filesystem::create_directories(home, error))
    std::filesystem::permissions(home, std::filesystem::perms::owner_all, error);
  return error ? std::filesystem::path() : home / "driver_history";
}

}  // namespace nestor::launch
