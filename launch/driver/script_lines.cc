#include <cerrno>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nestor/launch/driver/lines.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

class ScriptLines final : public LineSource {
 public:
  ScriptLines(int descriptor, Interrupts& interrupts) : descriptor_(descriptor), interrupts_(interrupts) {
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) throw WorkError("driver", "no event can be made");
    interrupts_.on_first([wake = wake_] {
      const std::uint64_t one = 1;
      static_cast<void>(!::write(wake, &one, sizeof one));
    });
  }
  ~ScriptLines() override {
    interrupts_.on_first({});
    ::close(wake_);
  }
  ScriptLines(const ScriptLines&) = delete;
  ScriptLines& operator=(const ScriptLines&) = delete;

  bool interactive() const override { return false; }

  std::optional<std::string> next() override {
    for (;;) {
      if (interrupts_.requested() != 0) return std::nullopt;
      if (const auto end = read_.find('\n'); end != std::string::npos) {
        std::string line = read_.substr(0, end);
        read_.erase(0, end + 1);
        return line;
      }
      if (ended_) {
        if (read_.empty()) return std::nullopt;
        return std::exchange(read_, {});
      }
      if (read_.size() > kLongest) throw InputError("driver", "a line is longer than 1 MiB");
      more();
    }
  }

 private:
  static constexpr std::size_t kLongest = std::size_t{1} << 20;

  void more() {
    pollfd waiting[2] = {{descriptor_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0 && errno != EINTR) throw WorkError("driver", "its standard input cannot be read");
    if (waiting[0].revents == 0) return;
    char bytes[4096];
    const auto got = ::read(descriptor_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) return;
    if (got < 0) throw InputError("driver", "its standard input cannot be read");
    if (got == 0) ended_ = true;
    read_.append(bytes, static_cast<std::size_t>(got));
  }

  const int descriptor_;
  Interrupts& interrupts_;
  int wake_ = -1;
  std::string read_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<LineSource> script_lines(int descriptor, Interrupts& interrupts) {
  return std::make_unique<ScriptLines>(descriptor, interrupts);
}

}  // namespace nestor::launch
