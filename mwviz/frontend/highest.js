// The highest number of any stretch, found without reading the whole stretch. Pure.

/**
 * The highest of `at(from) .. at(to - 1)` as a function of `from` and `to` (0 where there is none):
 * `at` is read once for each of `count` numbers, which are at least 0 and are kept in 32 bits.
 */
export function highestOf(count, at) {
  // The highest of 2i and 2i + 1 stands at i; the numbers themselves are the second half.
  const heap = new Float32Array(2 * count);
  for (let i = 0; i < count; i++) heap[count + i] = at(i);
  for (let i = count - 1; i > 0; i--) heap[i] = Math.max(heap[2 * i], heap[2 * i + 1]);
  return (from, to) => {
    let found = 0;
    for (let low = from + count, high = to + count; low < high; low >>= 1, high >>= 1) {
      if (low & 1) found = Math.max(found, heap[low++]);
      if (high & 1) found = Math.max(found, heap[--high]);
    }
    return found;
  };
}
