#include <new>

#include <c10/util/Exception.h>

#include <nestor/actors/error.h>
#include <nestor/launch/error.h>
#include <nestor/launch/exit.h>
#include <nestor/modules/error.h>
#include <nestor/scheduler/error.h>

namespace nestor::launch {

std::pair<Exit, std::string> exit_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InputError& e) {
    return {bad_input, e.what()};
  } catch (const scheduler::Error& e) {
    return {bad_input, e.what()};
  } catch (const modules::Error& e) {
    return {bad_input, e.what()};
  } catch (const WorkError& e) {
    return {failed, e.what()};
  } catch (const actors::Error& e) {
    return {failed, e.what()};
  } catch (const std::bad_alloc&) {
    return {failed, "memory: not enough for this (fewer or smaller microbatches, layers or stages)"};
  } catch (const c10::Error& e) {
    return {failed, "tensor operation: " + std::string(e.what_without_backtrace())};
  } catch (const std::exception& e) {
    return {failed, std::string("internal error: ") + e.what()};
  }
}

}  // namespace nestor::launch
