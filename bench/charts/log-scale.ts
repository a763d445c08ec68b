/** Maps values to places on a logarithmic axis, with a tick at every power of ten. */
export interface LogScale {
  at(value: number): number;
  readonly ticks: readonly number[];
}

/** From `start` to `end` (which may be the smaller one, as y axes are), wide enough for all values. */
export function logScale(values: readonly number[], start: number, end: number): LogScale {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  const low = Math.floor(Math.min(...logs));
  const high = Math.max(low + 1, Math.ceil(Math.max(...logs)));
  return {
    at: (value) => start + ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (end - start),
    ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)),
  };
}

/** Three significant digits at most, with a unit prefix instead of zeros. */
export function short(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(value < 10 ? 2 : 3)));
}
