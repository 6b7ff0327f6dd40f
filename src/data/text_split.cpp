#include "data/text_split.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace atl {

std::size_t next_cut(std::string_view text, std::size_t from) {
  if (from == 0 || from >= text.size()) return std::min(from, text.size());
  const std::size_t newline = text.substr(0, std::min(text.size(), from + kLineSearch)).find('\n', from - 1);
  if (newline != std::string_view::npos) return newline + 1;
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  std::size_t cut = from;
  while (cut < text.size() && cut < from + 3 && continues(cut)) ++cut;
  return cut;
}

std::vector<TextPiece> split_text(std::string_view text, double share) {
  ATOLL_CHECK(share > 0 && share < 1, "a share of ", share);
  const double held_out = std::floor(static_cast<double>(text.size()) * share);
  const auto segments =
      static_cast<std::size_t>(std::max(1.0, std::round(held_out / static_cast<double>(kValidationPiece))));
  const std::size_t length = static_cast<std::size_t>(held_out) / segments;

  std::vector<TextPiece> pieces;
  std::size_t done = 0;
  const auto up_to = [&](std::size_t end, bool validation) {
    if (end <= done) return;
    if (!pieces.empty() && pieces.back().validation == validation)  // what lay between was swallowed by a long line
      pieces.back().text = {pieces.back().text.data(), pieces.back().text.size() + (end - done)};
    else
      pieces.push_back({text.substr(done, end - done), validation});
    done = end;
  };
  for (std::size_t s = 0; s < segments; ++s) {
    const std::size_t begin = text.size() / segments * s + text.size() % segments * s / segments;
    const std::size_t end = text.size() / segments * (s + 1) + text.size() % segments * (s + 1) / segments;
    const std::size_t middle = begin + (end - begin - length) / 2;
    up_to(next_cut(text, middle), false);
    up_to(next_cut(text, middle + length), true);
  }
  up_to(text.size(), false);
  return pieces;
}

}  // namespace atl
