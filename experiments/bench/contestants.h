// What exchanges are compared with each other in: Gloo's ring all-reduce, and ours without a trainer.  One object a site, in a process each;
// all sites call the same functions in the same order.
#pragma once
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/gloo_exchange.h"
#include "median.h"

namespace atl::bench {

// gloo::allreduce's ring, in place, over one context.
class Reference {
 public:
  Reference(const std::string& folder, const std::string& address, int rank, int sites, std::size_t n)
      : values_(n, 0.0F) {
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr attr(address.c_str());
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, sites);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
  }
  void run(std::size_t segment) {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(values_.data(), values_.size());
    void (*sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;  // gloo's own, vectorised
    options.setReduceFunction(sum);
    options.setTag(tag_++);
    options.setMaxSegmentSize(segment);
    gloo::allreduce(options);
  }

 private:
  std::vector<float> values_;
  std::shared_ptr<gloo::Context> context_;
  std::uint32_t tag_ = 1;
};

// The whole exchange inside a link: headers, payload in shared memory to mean in shared memory.  One slot.
class Ours {
 public:
  Ours(const std::string& folder, const std::string& address, int rank, int sites, std::size_t n, int streams,
       std::size_t piece_bytes)
      : codec_(make_codec("fp32")), store_("file://" + folder), n_(n) {
    const std::vector<std::uint64_t> values{n};
    const link::Segment segment = link::segment_of(values, *codec_);
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, segment.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    in_ = reinterpret_cast<float*>(memory_ + segment.slots[0].in);
    out_ = reinterpret_cast<const float*>(memory_ + segment.slots[0].out);
    for (std::size_t i = 0; i < n; ++i) in_[i] = static_cast<float>(rank + 1) * static_cast<float>(1 + i % 1000);
    transport_ = std::make_unique<link::GlooTransport>(store_, "gloo/1-1/", address, rank, sites, streams);
    std::vector<std::string> names;
    for (int r = 0; r < sites; ++r) names.push_back("site-" + std::to_string(r));
    exchange_ =
        std::make_unique<link::GlooExchange>(*transport_, link::GlooExchange::Setup{.sites = names,
                                                                                    .generation = 1,
                                                                                    .layout_hash = {},
                                                                                    .settings_hash = {},
                                                                                    .piece_bytes = piece_bytes,
                                                                                    .codec = codec_.get(),
                                                                                    .mean_codec = codec_.get(),
                                                                                    .segment = segment,
                                                                                    .memory = memory_,
                                                                                    .waiting_for = &waiting_for_});
    exchange_->sync({}, [] { return link::Send{}; });
    factor_ = static_cast<float>(sites + 1) / 2;  // mean of 1 ... M
  }
  void run(bool last) {
    link::Send send{.number = ++number_, .out = {}, .oldest_ms = 0};
    send.out = {.slot = 0, .round = 1, .step = number_, .tokens = 100, .next_slot = last ? -1 : 0};
    exchange_->run(send);
  }
  double round_trip() const { return transport_->round_trip(); }  // seconds
  void check() const {                                            // to four roundings: a third is not exact
    for (std::size_t i = 0; i < n_; ++i) {
      const float want = factor_ * static_cast<float>(1 + i % 1000);
      if (!(std::abs(out_[i] - want) <= 4 * 0x1p-24F * want)) throw Bug(text("mean ", i, " is ", out_[i]));
    }
  }

 private:
  std::unique_ptr<Codec> codec_;
  FileStore store_;
  std::size_t n_;
  std::byte* memory_ = nullptr;
  float* in_ = nullptr;
  const float* out_ = nullptr;
  std::atomic<int> waiting_for_{-1};
  std::unique_ptr<link::GlooTransport> transport_;
  std::unique_ptr<link::GlooExchange> exchange_;
  std::uint64_t number_ = 0;
  float factor_ = 0;
};

}  // namespace atl::bench
