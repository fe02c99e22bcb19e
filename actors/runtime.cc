#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>

#include <nestor/actors/detail/caf_system.h>
#include <nestor/actors/error.h>
#include <nestor/actors/runtime.h>

namespace nestor::actors {

namespace {

/// The first task of a cell. Its future is spawn's.
class Construction final : public detail::ValueState<void>, public detail::Task {
 public:
  Construction(std::shared_ptr<detail::Cell> cell, detail::Cell::Factory factory)
      : detail::ValueState<void>(std::move(cell)), factory_(std::move(factory)) {}

  bool run(detail::Cell& cell) override {
    const auto factory = std::exchange(factory_, nullptr);
    try {
      cell.construct(factory);
      set_value({});
    } catch (const std::exception& error) {
      failed(cell, error.what());
    } catch (...) {
      failed(cell, "something that is no std::exception");
    }
    return false;
  }
  void abandon(std::exception_ptr error) override {
    fail(threw_.load(std::memory_order_acquire) ? thrown_ : std::move(error));
  }
  bool settled() const override { return done(); }

 private:
  void failed(detail::Cell& cell, const std::string& what) {
    const std::string cause = "its constructor threw: " + what;
    thrown_ = std::make_exception_ptr(CallFailed(cell.name(), "", cause, std::current_exception()));
    threw_.store(true, std::memory_order_release);
    cell.kill(cause);  // abandons this; the name is free before spawn throws
  }

  detail::Cell::Factory factory_;
  std::exception_ptr thrown_;
  std::atomic<bool> threw_{false};
};

}  // namespace

struct Runtime::Impl {
  Impl(Runtime& runtime, RuntimeOptions opts) : options(opts), registry(std::make_shared<detail::Registry>(runtime)) {}

  const RuntimeOptions options;
  std::shared_ptr<detail::Registry> registry;
  std::unique_ptr<detail::CafSystem> system = std::make_unique<detail::CafSystem>();
  std::mutex shutdown;
};

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_unique<Impl>(*this, options)) {}

Runtime::~Runtime() {
  try {
    shutdown(impl_->options.shutdown_limit);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nestor: %s\n", error.what());
    impl_->system->leak();
  }
}

remote::Node* Runtime::node() const {
  return impl_->registry->node();
}

const std::shared_ptr<detail::Registry>& Runtime::registry() const {
  return impl_->registry;
}

std::shared_ptr<detail::Cell> Runtime::launch(const ActorOptions& options, detail::ActorType type,
                                              detail::Cell::Factory factory) {
  constexpr std::size_t kMostThreads = 256;
  if (options.max_concurrency < 1 || options.max_concurrency > kMostThreads)
    throw Error(options.name, "cannot have max_concurrency " + std::to_string(options.max_concurrency), "1 to 256");
  auto cell = std::make_shared<detail::Cell>(options.name, std::move(type), options.mailbox_limit, options.send_limit,
                                             options.max_concurrency, impl_->registry);
  auto construction = std::make_shared<Construction>(cell, std::move(factory));
  cell->post(construction, true);
  try {
    impl_->registry->add(cell);
  } catch (...) {
    cell->discard();  // the construction refers to the cell
    throw;
  }
  impl_->system->launch(cell);
  try {
    Future<void>(construction).get();
  } catch (...) {
    cell->kill("it was never constructed");  // where this thread's actor may not wait for it
    throw;
  }
  return cell;
}

std::shared_ptr<detail::Cell> Runtime::find_cell(std::string_view name, const detail::ActorType& type) const {
  auto cell = impl_->registry->find(name);
  if (cell->type().type != type.type) {
    throw Error(cell->name(), "is a " + cell->type_name() + ", not a " + type.name, "find it by its own type");
  }
  return cell;
}

std::vector<ActorInfo> Runtime::list() const {
  return impl_->registry->list();
}

void Runtime::kill(std::string_view name, const std::string& cause) {
  impl_->registry->find(name)->kill(cause);
}

void Runtime::shutdown(std::chrono::nanoseconds limit) {
  if (detail::Cell* current = detail::Cell::current(); current != nullptr && current->registry() == impl_->registry) {
    throw Error(current->name(), "an actor cannot shut its own runtime down", "return, and let the owner do it");
  }
  std::lock_guard lock(impl_->shutdown);
  if (!impl_->system) return;
  for (const auto& cell : impl_->registry->close()) cell->kill("the runtime was shut down");
  const auto survivors = impl_->registry->wait_ended(detail::deadline_after(limit));
  if (!survivors.empty()) {
    std::string names;
    for (const std::string& name : survivors) names += (names.empty() ? "" : ", ") + name;
    throw Error("runtime", "actors did not end within " + detail::in_words(limit) + ": " + names,
                "their methods are still running");
  }
  impl_->system.reset();
}

}  // namespace nestor::actors
