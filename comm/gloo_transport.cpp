#include "comm/gloo_transport.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace atl::link {
namespace {

// Longer than any exchange: deadlines are the front thread's, which ends the process.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24);

// Gloo's rendezvous keys in our store.  Gloo's own stores poll for a fixed 30 s, or ignore the timeout.
class Rendezvous final : public gloo::rendezvous::Store {
 public:
  Rendezvous(FileStore& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.put(prefix_ + key, std::as_bytes(std::span(data)));
  }
  std::vector<char> get(const std::string& key) override {
    for (;;) {
      if (const auto found = store_.get(prefix_ + key)) {
        const auto* chars = reinterpret_cast<const char*>(found->data());
        return {chars, chars + found->size()};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  FileStore& store_;
  std::string prefix_;
};

// Outlives the constructor when one of the threads is left behind; the process then ends.
class Connecting {
 public:
  explicit Connecting(std::size_t count) : contexts_(count), missing_(count) {}
  void done(std::size_t index, std::shared_ptr<gloo::Context> context) {
    const std::lock_guard lock(mutex_);
    contexts_[index] = std::move(context);
    --missing_;
    changed_.notify_all();
  }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    changed_.notify_all();
  }
  std::vector<std::shared_ptr<gloo::Context>> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return missing_ == 0 || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    return std::move(contexts_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<gloo::Context>> contexts_;
  std::size_t missing_;
  std::exception_ptr failure_;
};

}  // namespace

GlooTransport::GlooTransport(const FileStore& store, const std::string& prefix, const std::string& address, int rank,
                             int sites, int streams, const Emulate& emulate, const std::string& congestion)
    : rank_(rank), sites_(sites), contexts_(2 * static_cast<std::size_t>(streams) + 2) {
  std::vector<std::shared_ptr<gloo::transport::Device>> devices;
  for (int i = 0; i < streams; ++i)
    devices.push_back(gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str())));
  // All at once, since each takes a round trip for every site; until all are connected or one has failed.
  const auto state = std::make_shared<Connecting>(contexts_.size());
  for (std::size_t c = 0; c < contexts_.size(); ++c)
    std::thread([=, url = store.url(), device = devices[c / 2 % devices.size()]]() mutable {
      try {
        FileStore own_store(url);
        Rendezvous rendezvous(own_store, prefix + std::to_string(c) + "/");
        auto context = std::make_shared<gloo::rendezvous::Context>(rank, sites);
        context->setTimeout(kForever);
        context->connectFullMesh(rendezvous, device);
        state->done(c, std::move(context));
      } catch (...) {
        state->fail(std::current_exception());
      }
    }).detach();
  contexts_ = state->wait();
  counter_.find();
  if (!congestion.empty()) counter_.set_congestion(congestion);
  if (emulate.on()) uplink_ = std::make_unique<EmulatedUplink>(emulate, streams, static_cast<std::uint64_t>(rank));
}

GlooTransport::~GlooTransport() = default;

gloo::Context& GlooTransport::context(int stream, int from, int to) const {
  return *contexts_[2 * static_cast<std::size_t>(stream) + (from < to ? 0 : 1)];
}

void GlooTransport::Receive::wait(std::atomic<int>& waiting_for) {
  waiting_for = from_;
  if (fixed_ != nullptr)
    fixed_->waitRecv();
  else if (!buffer_->waitRecv(kForever))
    throw LinkError("a receive was given up");
  waiting_for = -1;
  buffer_.reset();
}

GlooTransport::Receive GlooTransport::receive(int from, std::uint64_t tag, int stream, std::byte* data,
                                              std::size_t bytes) {
  Receive posted;
  posted.buffer_ = context(stream, from, rank_).createUnboundBuffer(data, bytes);
  posted.from_ = from;
  posted.buffer_->recv(from, tag);
  return posted;
}

gloo::transport::Buffer* GlooTransport::fixed(bool receive, int other, int id, std::byte* data, std::size_t bytes) {
  auto& buffer = fixed_[{receive, other, id}];
  if (!buffer) {
    const auto& pair =
        receive ? context(streams(), other, rank_).getPair(other) : context(streams(), rank_, other).getPair(other);
    buffer = receive ? pair->createRecvBuffer(id, data, bytes) : pair->createSendBuffer(id, data, bytes);
  }
  return buffer.get();
}

GlooTransport::Receive GlooTransport::receive_fixed(int from, int id, std::byte* data, std::size_t bytes) {
  Receive posted;
  posted.fixed_ = fixed(true, from, id, data, bytes);
  posted.from_ = from;
  return posted;
}

void GlooTransport::send_fixed(int to, int id, const std::byte* data, std::size_t bytes) {
  gloo::transport::Buffer* const buffer = fixed(false, to, id, const_cast<std::byte*>(data), bytes);
  sending_fixed_.push_back(buffer);
  if (uplink_) return uplink_->hold(to, streams(), bytes, [=] { buffer->send(0, bytes); });
  buffer->send(0, bytes);
  // Gloo fixes a connection's send buffer to the largest message so far; the next one then waits for this one's
  // acknowledgement: one round trip for a small mean behind a small payload.
  std::size_t& largest = largest_fixed_[to];
  if (bytes <= largest) return;
  largest = bytes;
  counter_.free_send_buffers();
}

void GlooTransport::send(const std::vector<int>& to, std::uint64_t tag, int stream, const std::byte* data,
                         std::size_t bytes) {
  auto* memory = const_cast<std::byte*>(data);  // Gloo has one kind of buffer for both directions; it only reads here
  for (const int rank : to) {
    sending_.push_back(context(stream, rank_, rank).createUnboundBuffer(memory, bytes));
    gloo::transport::UnboundBuffer* const buffer = sending_.back().get();
    if (uplink_)
      uplink_->hold(rank, stream, bytes, [=] { buffer->send(rank, tag); });
    else
      buffer->send(rank, tag);
  }
}

void GlooTransport::wait_sends(std::atomic<int>& waiting_for) {
  waiting_for = -2;  // no one in particular: some peer does not take what is sent
  if (uplink_) uplink_->wait();
  for (const auto& sending : sending_)
    if (!sending->waitSend(kForever)) throw LinkError("a send was given up");
  sending_.clear();
  for (gloo::transport::Buffer* sending : sending_fixed_) sending->waitSend();
  sending_fixed_.clear();
  waiting_for = -1;
}

WireBytes GlooTransport::wire_bytes() const { return counter_.count(); }

}  // namespace atl::link
