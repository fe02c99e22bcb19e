#pragma once
// Inside actors/remote/.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nestor/comm/ucx.h>

namespace nestor::actors::remote {

struct Letter;
using LetterPtr = std::shared_ptr<Letter>;

/// One end of a channel that carries long payloads from one process to another: the receiver's is 0, the sender's 1.
/// The channel belongs to a thread of its own, which alone waits in it. The two find each other by addresses and a
/// secret that travel over the processes' own link, and say hello before anything is entrusted to them.
class BulkEnd {
 public:
  virtual ~BulkEnd() = default;
  /// Has the thread end soon, and lets go of what is under way. Any thread.
  void close(const std::string& cause);
  /// The thread has nothing left to do: to join it takes no time.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  /// Closes it and waits for its thread. Not in that thread, nor twice at once.
  void join();
  const std::uint64_t number;

  /// The other end is found within this time, or there is no channel.
  static constexpr std::chrono::seconds kOpenLimit{5};

 protected:
  BulkEnd(std::uint64_t number_of_it, std::int32_t lane, comm::UcxOptions options)
      : number(number_of_it), lane_(lane), options_(std::move(options)) {}
  void start();
  /// In its thread, with the end open: carries until it is closed, or returns why it cannot.
  virtual std::string carry() = 0;
  /// In its thread, at the end; `cause` is empty where nothing is wrong.
  virtual void ended(const std::string& cause) = 0;

  comm::UcxChannel& channel() { return *channel_; }
  /// With mutex_: ends the thread's waits, and frees what is on its way.
  void give_up(const std::string& cause);
  comm::Status hello(comm::Deadline deadline);
  comm::Deadline soon() const { return comm::Clock::now() + options_.stall; }
  static comm::Key letter_key(std::uint64_t number) { return {kGeneration, 1, number}; }
  static comm::Key receipt_key(std::uint64_t number) { return {kGeneration, 2, number}; }

  static constexpr std::uint64_t kGeneration = 1;
  const std::int32_t lane_;
  const comm::UcxOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;

 private:
  std::string run();

  std::unique_ptr<comm::UcxChannel> channel_;  ///< its thread's; others abort it, under mutex_
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

/// Sends letters in their order and hears of each when the receiver has handed it on.
class BulkSender final : public BulkEnd {
 public:
  struct Hooks {  ///< in the sender's thread
    std::function<void(BulkSender&, const std::string& address)> offer;
    /// In the thread that calls `send`: how much has gone by the link; sends a fence behind it, and gives its number.
    std::function<std::uint64_t()> sent_by_link;
    std::function<std::uint64_t()> fence;
    std::function<void(const LetterPtr&)> carried;
    /// Of `lost` it is not known whether they arrived; `unsent` were not begun. `cause` is empty where it was idle.
    std::function<void(BulkSender&, const std::string& cause, std::vector<LetterPtr> lost,
                       std::vector<LetterPtr> unsent)>
        ended;
  };
  /// `idle`: it ends after so long without a letter.
  BulkSender(std::uint64_t number_of_it, comm::UcxOptions options, Hooks hooks, std::chrono::nanoseconds idle);
  ~BulkSender() override;
  /// False where it has ended. The letter is not handed on before what has gone by the link. One thread at a time.
  bool send(const LetterPtr& letter);
  /// True where the letter will not be sent after all.
  bool withdraw(const LetterPtr& letter);
  /// The receiver's answer: its address, or why there is none.
  void answered(const std::string& address, const std::string& refused);
  bool ready() const { return ready_.load(std::memory_order_acquire); }

  static constexpr std::size_t kUnderWay = 16;  ///< letters sent without a receipt

 private:
  std::string carry() override;
  void ended(const std::string& cause) override;
  std::string meet();
  comm::Status send_next(const LetterPtr& letter);
  comm::Status take_receipt();

  const Hooks hooks_;
  const std::chrono::nanoseconds idle_;
  bool answered_ = false, over_ = false;
  std::string address_, refused_;
  std::deque<LetterPtr> queue_, under_way_;
  std::uint64_t fence_ = 0, fenced_ = UINT64_MAX;  ///< the last fence, and how much had gone by the link with it
  std::uint64_t sent_ = 0, received_ = 0;          ///< letters, receipts
  std::atomic<bool> ready_{false};
};

class BulkReceiver final : public BulkEnd {
 public:
  struct Hooks {  ///< in the receiver's thread
    /// Where this end is, or why there is none (any more).
    std::function<void(BulkReceiver&, const std::string& address, const std::string& refused)> answer;
    std::function<void(Letter&)> arrived;
  };
  /// `fence`: the last one that has come.
  BulkReceiver(std::uint64_t number_of_it, std::string sender, std::uint64_t fence, comm::UcxOptions options,
               Hooks hooks);
  ~BulkReceiver() override;
  /// All that went by the link before this fence has been handed on.
  void fenced(std::uint64_t number);

 private:
  std::string carry() override;
  void ended(const std::string& cause) override;

  std::string await_fence(std::uint64_t number);

  const std::string sender_;
  const Hooks hooks_;
  std::uint64_t fence_;
};

}  // namespace nestor::actors::remote
