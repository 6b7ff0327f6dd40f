// libFuzzer on decode_header: the bytes as they are, and with the checksum put right.  An exception that is no LinkError
// ends it, as does what ASan and UBSan find.
#include "fuzz/header_property.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  atl::header_holds(bytes);
  atl::header_holds(atl::sealed(bytes));
  return 0;
}
