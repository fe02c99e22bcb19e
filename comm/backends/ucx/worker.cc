#include <stdexcept>
#include <string>
#include <utility>

#include <nestor/comm/backends/ucx/worker.h>

namespace nestor::comm::ucx {

Worker::Worker(std::shared_ptr<Context> context) : context_(std::move(context)) {
  returned_.reserve(kMaxLent);  // so that giving back never allocates
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.am_alignment = 64;
  if (const ucs_status_t status = ucp_worker_create(context_->get(), &params, &worker_); status != UCS_OK) {
    throw std::runtime_error(std::string("ucx: cannot open a worker: ") + ucs_status_string(status));
  }
}

Worker::~Worker() {
  if (given_up_) {
    static_cast<void>(new std::shared_ptr<Context>(std::move(context_)));
    return;
  }
  release_returned();
  ucp_worker_destroy(worker_);
}

std::shared_ptr<const void> Worker::lend(void* data) {
  // Owned only once nothing can throw any more: UCX keeps the data of a callback that fails.
  struct Loan {
    std::shared_ptr<Worker> worker;
    void* data = nullptr;
    ~Loan() {
      if (data != nullptr) worker->give_back(data);
    }
  };
  auto loan = std::make_shared<Loan>();
  loan->worker = shared_from_this();
  loan->data = data;
  lent_.fetch_add(1, std::memory_order_relaxed);
  return {std::move(loan), data};
}

void Worker::give_back(void* data) noexcept {
  {
    std::lock_guard lock(mutex_);
    returned_.push_back(data);
  }
  returned_any_.store(true, std::memory_order_release);
}

void Worker::release_returned() {
  std::lock_guard lock(mutex_);
  returned_any_.store(false, std::memory_order_relaxed);
  for (void* data : returned_) ucp_am_data_release(worker_, data);
  lent_.fetch_sub(static_cast<unsigned>(returned_.size()), std::memory_order_relaxed);
  returned_.clear();
}

}  // namespace nestor::comm::ucx
