const pageSize = 65_536;
const blockSize = 512;

export interface ByteRange {
  readonly start: number;
  /** The offset of the last byte. */
  readonly end: number;
}

/** The bytes of a file. Only written bytes take memory, so a file may be created with a size of terabytes. */
export class SparseContent {
  #size: number;
  #written: ByteRange[] = [];
  readonly #pages = new Map<number, Buffer>();

  constructor(size: number) {
    this.#size = size;
  }

  get size(): number {
    return this.#size;
  }

  /** The ranges that were written and not cleared since, in order. */
  get ranges(): readonly ByteRange[] {
    return this.#written;
  }

  read(start: number, end: number): Buffer {
    const bytes = Buffer.alloc(end - start + 1);
    this.#eachPage(start, end, (index, from, to) => {
      this.#pages.get(index)?.copy(bytes, index * pageSize + from - start, from, to);
    });
    return bytes;
  }

  write(start: number, bytes: Buffer): void {
    if (bytes.length === 0) return;
    const end = start + bytes.length - 1;
    this.#eachPage(start, end, (index, from, to) => {
      let page = this.#pages.get(index);
      if (!page) this.#pages.set(index, (page = Buffer.alloc(pageSize)));
      bytes.copy(page, from, index * pageSize + from - start, index * pageSize + to - start);
    });
    this.#addRange({ start, end });
  }

  /** Zeroes the bytes, and frees the whole blocks among them: as in the service, partial blocks stay written. */
  clear(start: number, end: number): void {
    // Only the existing pages, as the range may comprise terabytes.
    for (const [index, page] of this.#pages) {
      const from = Math.max(start - index * pageSize, 0);
      const to = Math.min(end + 1 - index * pageSize, pageSize);
      if (from === 0 && to === pageSize) this.#pages.delete(index);
      else if (from < to) page.fill(0, from, to);
    }
    const firstBlock = Math.ceil(start / blockSize) * blockSize;
    // The last block of a file may be shorter.
    const afterLast = end + 1 === this.#size ? end + 1 : Math.floor((end + 1) / blockSize) * blockSize;
    if (firstBlock < afterLast) this.#removeRange(firstBlock, afterLast - 1);
  }

  resize(size: number): void {
    if (size < this.#size) {
      this.#removeRange(size, Number.MAX_SAFE_INTEGER);
      const keep = size % pageSize;
      for (const index of [...this.#pages.keys()]) {
        if (index * pageSize >= size) this.#pages.delete(index);
        else if (keep > 0 && index === Math.floor(size / pageSize)) this.#pages.get(index)?.fill(0, keep);
      }
    }
    this.#size = size;
  }

  copy(): SparseContent {
    const copy = new SparseContent(this.#size);
    copy.#written = [...this.#written];
    for (const [index, page] of this.#pages) copy.#pages.set(index, Buffer.from(page));
    return copy;
  }

  #eachPage(start: number, end: number, visit: (index: number, from: number, to: number) => void): void {
    for (let index = Math.floor(start / pageSize); index * pageSize <= end; index++) {
      const offset = index * pageSize;
      visit(index, Math.max(start - offset, 0), Math.min(end + 1 - offset, pageSize));
    }
  }

  #addRange(added: ByteRange): void {
    let { start, end } = added;
    const others: ByteRange[] = [];
    for (const range of this.#written) {
      if (range.end + 1 < start || range.start > end + 1) others.push(range);
      else [start, end] = [Math.min(start, range.start), Math.max(end, range.end)];
    }
    this.#written = [...others, { start, end }].sort((a, b) => a.start - b.start);
  }

  #removeRange(start: number, end: number): void {
    this.#written = this.#written.flatMap((range) => {
      const left = { start: range.start, end: Math.min(range.end, start - 1) };
      const right = { start: Math.max(range.start, end + 1), end: range.end };
      return [left, right].filter((part) => part.start <= part.end);
    });
  }
}
