// Which parts of a text are held out for validation: a pure function of the text and the share.
//
// Not the tail alone: the end of a book, or of a file of many books, is not like the rest.  A text is divided into
// equal segments, and a piece from the middle of each is held out; there are as many segments as make the pieces about
// kValidationPiece bytes long, and at least one a text.  So every part of every file is represented, and the seams,
// where a training window holds text from both sides of a piece, are few.  Pieces begin and end at lines where lines
// are short, else between characters (UTF-8).
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace atl {

constexpr std::size_t kValidationPiece = std::size_t{64} << 10U;  // bytes
constexpr std::size_t kLineSearch = std::size_t{4} << 10U;        // bytes in which a line must end to be cut there

struct TextPiece {
  std::string_view text;
  bool validation = false;
};

// The whole text in order, as pieces that alternate between training and validation; none is empty.  0 < share < 1.
std::vector<TextPiece> split_text(std::string_view text, double share);

// The least place >= `from` where `text` may be cut: its end, after a newline when one comes within kLineSearch bytes,
// else before a byte that does not continue a UTF-8 character.
std::size_t next_cut(std::string_view text, std::size_t from);

}  // namespace atl
