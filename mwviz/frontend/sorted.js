// Search in ascending numbers.

/** Index of the last entry of ascending `starts` that is at most `value`; -1 if there is none. */
export function lastAtMost(starts, value) {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
