// runtime/attention_rows.h: scores of attention to weights, a block of keys at a time, and numbers of bf16.
//
// The running maximum and sum of a row are those of Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018.
#pragma once

#include <cstdint>

namespace braze::runtime {

/// A block of scores of `rows` queries by `columns` keys, and what is known of the keys before it.
struct AttentionBlock {
  float* scores = nullptr;      ///< Becomes weights, to be divided by the sum at the end. `stride` from row to row.
  const float* mask = nullptr;  ///< Added to the scaled scores; null: none.
  float* results = nullptr;     ///< What the keys before have given: `width` numbers a row, without gaps.
  float* greatest = nullptr;    ///< A number a row, of the scores so far; -inf before the first block.
  float* sums = nullptr;        ///< A number a row, of the weights so far; 0 before the first block.
  int64_t rows = 0, columns = 0, width = 0;
  int64_t stride = 0, mask_stride = 0;
  float scale = 1;
  /// Row r sees the first `visible + r` keys alone, none if that is negative; or all.
  bool is_causal = false;
  int64_t visible = 0;
};

/// A block of scores of `keys` keys by `queries` queries, for gradients: a row a key.
struct AttentionBackBlock {
  float* scores = nullptr;           ///< Become weights. `stride` from row to row.
  float* slopes = nullptr;           ///< Products of gradients and values; become gradients of unscaled scores.
  const float* mask = nullptr;       ///< Added to the scaled scores, laid out as they are; null: none.
  const float* logsumexp = nullptr;  ///< A number a query.
  const float* delta = nullptr;      ///< A number a query: its result times its gradient, added up.
  int64_t keys = 0, queries = 0, stride = 0;
  float scale = 1;
  /// Key k is seen by queries from `visible + k` on alone; or by all.
  bool is_causal = false;
  int64_t visible = 0;
};

/// One instruction set's functions.
struct AttentionFunctions {
  /// `stride` and the numbers behind each row of scores up to a multiple of 16 are the block's to use. Keys that
  /// are not seen, and those whose score is -inf, weigh 0 to the bit.
  void (*weigh)(const AttentionBlock& block);
  /// Rows are to be used up to a multiple of 16, the numbers of `logsumexp` and `delta` there too.
  void (*weigh_back)(const AttentionBackBlock& block);
  /// Of bf16, and to the nearest one.
  void (*widen)(const uint16_t* from, float* to, int64_t count);
  void (*narrow)(const float* from, uint16_t* to, int64_t count);
};
extern const AttentionFunctions attention_avx2, attention_avx512;

}  // namespace braze::runtime
