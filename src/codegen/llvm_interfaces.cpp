// codegen/llvm_interfaces.cpp: the two parts of LLVM's support library that would want zlib and zstd.
//
// The linker takes LLVM's Compression.o and CRC.o only for the names below, and both need shared libraries that the
// user's machine may lack. Code generation never reaches them (they serve debug sections and profiles), so
// compression says that it is not available, and the checksum is written out.
#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/CRC.h>
#include <llvm/Support/Compression.h>
#include <llvm/Support/Error.h>

namespace llvm {

namespace compression {

namespace {
constexpr const char* kReason = "braze's LLVM has no compression";
Error unsupported() {
  return createStringError(inconvertibleErrorCode(), kReason);
}
}  // namespace

namespace zlib {
bool isAvailable() {
  return false;
}
void compress(ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&, int) {
  llvm_unreachable(kReason);
}
Error decompress(ArrayRef<uint8_t>, uint8_t*, size_t&) {
  return unsupported();
}
Error decompress(ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&, size_t) {
  return unsupported();
}
}  // namespace zlib

namespace zstd {
bool isAvailable() {
  return false;
}
void compress(ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&, int, bool) {
  llvm_unreachable(kReason);
}
Error decompress(ArrayRef<uint8_t>, uint8_t*, size_t&) {
  return unsupported();
}
Error decompress(ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&, size_t) {
  return unsupported();
}
}  // namespace zstd

const char* getReasonIfUnsupported(Format) {
  return kReason;
}
void compress(Params, ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&) {
  llvm_unreachable(kReason);
}
Error decompress(DebugCompressionType, ArrayRef<uint8_t>, uint8_t*, size_t) {
  return unsupported();
}
Error decompress(Format, ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&, size_t) {
  return unsupported();
}
Error decompress(DebugCompressionType, ArrayRef<uint8_t>, SmallVectorImpl<uint8_t>&, size_t) {
  return unsupported();
}

}  // namespace compression

// The reflected CRC-32 of IEEE 802.3.
uint32_t crc32(uint32_t crc, ArrayRef<uint8_t> data) {
  crc = ~crc;
  for (const uint8_t byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1)));
  }
  return ~crc;
}
uint32_t crc32(ArrayRef<uint8_t> data) {
  return crc32(0, data);
}
void JamCRC::update(ArrayRef<uint8_t> data) {
  CRC = ~crc32(~CRC, data);
}

}  // namespace llvm
