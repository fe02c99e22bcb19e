#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <nestor/comm/backends/ucx/worker.h>

namespace nestor::comm::ucx {

Worker::Worker(std::shared_ptr<Context> context) : context_(std::move(context)), loans_(kMaxLent) {
  for (Loan& loan : loans_) {
    loan.worker = this;
    loan.next = std::exchange(free_, &loan);
  }
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
  ucp_worker_destroy(worker_);
}

/// Allocates a shared_ptr's counts inside their loan, which goes back to the worker when the last of them has gone.
template <class T>
struct Worker::Place {
  using value_type = T;
  explicit Place(Loan* loan) : loan(loan) {}
  template <class U>
  Place(const Place<U>& other) : loan(other.loan) {}
  T* allocate(std::size_t count) {
    static_assert(sizeof(T) <= sizeof(Loan::count) && alignof(T) <= alignof(std::max_align_t));
    if (count != 1) throw std::bad_alloc();
    return reinterpret_cast<T*>(loan->count);
  }
  void deallocate(T*, std::size_t) noexcept { loan->worker->give_back(loan); }
  template <class U>
  bool operator==(const Place<U>& other) const {
    return loan == other.loan;
  }
  Loan* loan;
};

std::shared_ptr<const void> Worker::lend(void* data) {
  Loan* loan = std::exchange(free_, free_->next);
  loan->data = data;
  ++lent_;
  return {static_cast<const void*>(data), [](const void*) {}, Place<std::byte>(loan)};
}

void Worker::give_back(Loan* loan) noexcept {
  Loan* top = returned_.load(std::memory_order_relaxed);
  while (top != &retired_) {
    loan->next = top;
    if (returned_.compare_exchange_weak(top, loan, std::memory_order_release, std::memory_order_relaxed)) return;
  }
  loan->next = nullptr;
  bool last;
  {
    std::lock_guard lock(mutex_);
    release(loan);
    last = lent_ == 0;
  }
  if (last) delete this;
}

void Worker::release(Loan* returned) {
  while (returned != nullptr) {
    ucp_am_data_release(worker_, returned->data);
    --lent_;
    Loan* next = returned->next;
    returned->next = std::exchange(free_, returned);
    returned = next;
  }
}

void Worker::retire() {
  bool last;
  {
    std::lock_guard lock(mutex_);
    release(returned_.exchange(&retired_));
    last = lent_ == 0;
  }
  if (last) delete this;
}

}  // namespace nestor::comm::ucx
