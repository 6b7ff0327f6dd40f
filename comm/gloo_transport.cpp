#include "comm/gloo_transport.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
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

}  // namespace

GlooTransport::GlooTransport(FileStore& store, const std::string& prefix, const std::string& address, int rank,
                             int sites, int streams)
    : rank_(rank), sites_(sites) {
  for (int c = 0; c < streams; ++c) {
    gloo::transport::tcp::attr attr(address.c_str());
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, sites);
    context->setTimeout(kForever);
    Rendezvous rendezvous(store, prefix + std::to_string(c) + "/");
    context->connectFullMesh(rendezvous, device);
    contexts_.push_back(std::move(context));
  }
  sockets_ = tcp_sockets();
}

GlooTransport::~GlooTransport() = default;

void GlooTransport::Receive::wait(std::atomic<int>& waiting_for) {
  waiting_for = from_;
  if (!buffer_->waitRecv(kForever)) throw LinkError("a receive was given up");
  waiting_for = -1;
  buffer_.reset();
}

GlooTransport::Receive GlooTransport::receive(int from, std::uint64_t tag, int stream, std::byte* data,
                                              std::size_t bytes) {
  Receive posted;
  posted.buffer_ = contexts_[static_cast<std::size_t>(stream)]->createUnboundBuffer(data, bytes);
  posted.from_ = from;
  posted.buffer_->recv(from, tag);
  return posted;
}

void GlooTransport::send(const std::vector<int>& to, std::uint64_t tag, int stream, const std::byte* data,
                         std::size_t bytes) {
  auto* memory = const_cast<std::byte*>(data);  // Gloo has one kind of buffer for both directions; it only reads here
  Sending sending{contexts_[static_cast<std::size_t>(stream)]->createUnboundBuffer(memory, bytes), 0};
  for (const int rank : to) {
    sending.buffer->send(rank, tag);
    ++sending.copies;
  }
  sending_.push_back(std::move(sending));
}

void GlooTransport::wait_sends(std::atomic<int>& waiting_for) {
  waiting_for = -2;  // no one in particular: some peer does not take what is sent
  for (Sending& sending : sending_)
    for (int copy = 0; copy < sending.copies; ++copy)
      if (!sending.buffer->waitSend(kForever)) throw LinkError("a send was given up");
  sending_.clear();
  waiting_for = -1;
}

WireBytes GlooTransport::wire_bytes() const { return tcp_bytes(sockets_); }

}  // namespace atl::link
