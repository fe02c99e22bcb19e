#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace nestor::comm {

/// A tensor's extents. Up to five are held in place: a message of small tensors then costs no allocation for them.
class Shape {
 public:
  using value_type = std::int64_t;
  using iterator = std::int64_t*;
  using const_iterator = const std::int64_t*;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) { assign(extents.begin(), extents.end()); }
  Shape(const std::vector<std::int64_t>& extents) { assign(extents.begin(), extents.end()); }
  Shape(const Shape& other) : size_(other.size_), near_(other.near_) {
    if (other.far_ != nullptr) assign(other.begin(), other.end());
  }
  Shape(Shape&& other) noexcept : size_(other.size_), near_(other.near_), far_(std::move(other.far_)) {
    other.size_ = 0;
  }
  Shape& operator=(const Shape& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    near_ = other.near_;
    far_ = std::move(other.far_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~Shape() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return far_ != nullptr ? far_.get() : near_.data(); }
  const std::int64_t* data() const { return far_ != nullptr ? far_.get() : near_.data(); }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t i) { return data()[i]; }
  std::int64_t operator[](std::size_t i) const { return data()[i]; }

  /// `size` extents of any values, to be written.
  std::int64_t* make(std::size_t size) {
    far_.reset(size > near_.size() ? new std::int64_t[size] : nullptr);
    size_ = size;
    return data();
  }
  template <class Iterator>
  requires std::input_iterator<Iterator>
  void assign(Iterator first, Iterator last) {
    std::copy(first, last, make(static_cast<std::size_t>(std::distance(first, last))));
  }
  void assign(std::size_t size, std::int64_t extent) { std::fill_n(make(size), size, extent); }

  friend bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  std::size_t size_ = 0;
  std::array<std::int64_t, 5> near_{};
  std::unique_ptr<std::int64_t[]> far_;  ///< instead of `near_`, for more
};

}  // namespace nestor::comm
