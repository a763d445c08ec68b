import { checkNumber } from "../internal/validate.js";

const pageInBytes = 512;

/** The most that one request writes. */
export const maxPagesInBytes: number = 4 * 1024 * 1024;

/** A page blob is written in whole pages. */
export function checkPages(offset: number, count: number): void {
  checkNumber("offset", offset, { min: 0, max: Number.MAX_SAFE_INTEGER, integer: true });
  checkNumber("the length", count, { min: pageInBytes, max: Number.MAX_SAFE_INTEGER, integer: true });
  for (const [name, value] of Object.entries({ offset, "the length": count })) {
    if (value % pageInBytes !== 0) throw new RangeError(`${name} must be a multiple of ${pageInBytes}, the size of a page; got ${value}`);
  }
}
