// Streams: the reference for exchanges: bytes over plain TCP connections, nothing else.
//
// Each site has `streams` connections to every other for what it sends, and as many for what it receives.  All sites call the same functions
// in the same order.  A site that ends early is a LinkError at the others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace atl::wan {

constexpr std::uint16_t kPort = 7100;

// How a site's bytes are shared out among its streams: the same number over each (rounded up), as an exchange does that cuts a payload
// into pieces beforehand; or to whichever takes more, so that none is waited for alone.
enum class Split { even, free };
Split split_of(const std::string& word);  // throws ConfigError

class Streams {
 public:
  // Blocks until all are connected.  addresses: of all sites, in rank order.  congestion: "" for the system's.
  Streams(const std::vector<std::string>& addresses, int rank, int streams, const std::string& congestion);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Sends so many bytes (> 0) to every other site and receives as many from each; returns when all have arrived here and the own ones are in the
  // kernel.  All sites must have returned before any calls it again.
  void exchange(std::size_t bytes_a_site, Split split);

  std::string congestion() const;  // of the first connection, as the kernel names it
  double round_trip() const;       // seconds: the shortest that the kernel has seen on the first connection

 private:
  std::vector<int> sending_, receiving_;  // streams of the first other site, of the next, ...
  std::size_t streams_;
  std::vector<char> sent_, scratch_;
};

// What one site sends to each other in an exchange of `bytes` fp32: two sites swap; more send every chunk to its owner, and its mean to all.
inline std::size_t bytes_a_site(std::size_t bytes, int sites) {
  return sites == 2 ? bytes : 2 * bytes / static_cast<std::size_t>(sites);
}

}  // namespace atl::wan
