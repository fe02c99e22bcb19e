// 01: a plain actor. What a user's own actors look like: a counter, a pool of workers, errors, and finding one by name.
//
// An actor is an object with a thread of its own. Others hold a Handle to it and call its methods; a call returns at
// once with a Future, and the method runs in the actor's thread, one call at a time. So its members need no locks.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <nestor/actors/error.h>
#include <nestor/actors/pool.h>
#include <nestor/actors/runtime.h>

using namespace std::chrono_literals;

// Derive from Actor and write an ordinary class.
class Counter : public nestor::Actor {
 public:
  explicit Counter(int start) : value_(start) {}
  // Optional: the methods' names, for error messages.
  static void describe(nestor::MethodTable<Counter>& table) {
    table.type("counter").method("add", &Counter::add).method("divide", &Counter::divide);
  }
  int add(int n) { return value_ += n; }
  int divide(int n) {
    if (n == 0) throw std::invalid_argument("cannot divide by 0");
    return value_ /= n;
  }

 private:
  int value_;
};

class Speller : public nestor::Actor {
 public:
  std::string spell(std::string word) {
    std::string spelled;
    for (char letter : word) spelled += std::string(spelled.empty() ? "" : "-") + letter;
    return spelled;
  }
};

int main() {
  // A runtime holds the actors of a program. When it goes, they end.
  nestor::Runtime runtime;

  // spawn<Type>(name, constructor arguments...) gives a handle.
  auto counter = runtime.spawn<Counter>("counter", 5);

  // Calls are queued in the order they are made; neither waits for the other.
  nestor::Future<int> eight = counter.call(&Counter::add, 3);
  nestor::Future<int> ten = counter.call(&Counter::add, 2);
  const int first = eight.get(), second = ten.get_for(1s);  // get waits; get_for at most so long
  std::printf("counter: 5 + 3 = %d, and + 2 = %d\n", first, second);

  // What a method throws arrives where its result is read, with the actor's name. The actor lives on.
  try {
    counter.call(&Counter::divide, 0).get();
  } catch (const nestor::actors::CallFailed& error) {
    std::printf("error:   %s\n", error.what());
  }

  // Anyone with the runtime finds an actor by its name. A wrong name says which there are.
  auto again = runtime.find<Counter>("counter");
  std::printf("found:   the counter stands at %d\n", again.call(&Counter::add, 0).get());
  try {
    runtime.find<Counter>("conter");
  } catch (const nestor::actors::Error& error) {
    std::printf("error:   %s\n", error.what());
  }

  // A pool shares work among actors of one type. map gives the next input to whoever is free, results in order.
  {
    nestor::ActorPool<Speller> pool(runtime, "spellers", 2);
    const std::vector<std::string> words = {"nested", "actor", "lane"};
    for (const std::string& word : pool.map(&Speller::spell, words)) std::printf("pool:    %s\n", word.c_str());
  }

  // A call of a dead actor fails at once, and tells why it died.
  counter.kill("the story is over");
  try {
    counter.call(&Counter::add, 1).get();
  } catch (const nestor::actors::ActorDied& error) {
    std::printf("error:   %s\n", error.what());
  }
  return 0;
}
