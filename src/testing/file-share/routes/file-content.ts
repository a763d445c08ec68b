import { isWord, stampHeaders } from "../entry-headers.js";
import { fileTimeOf } from "../file-time.js";
import { notImplemented } from "../gaps.js";
import type { Operation } from "../operation.js";
import { requiredHeader } from "../request.js";
import type { FileRequest } from "../request.js";
import { checkLocks } from "../smb-opens.js";
import type { ByteRange } from "../sparse-content.js";
import { StorageFault } from "../storage-fault.js";
import type { FileEntry } from "../tree.js";
import { element, xmlDocument } from "../xml.js";
import { fileHeaders, maxRange } from "./file.js";
import { changeFile, checkMd5, checkNotReadOnly, fileToRead, md5Of } from "./file-access.js";

/** A response is one buffer. */
const maxRead = 1024 ** 3;

export const getFile: Operation = {
  level: "object",
  permissions: "r",
  run: (context) => {
    const { request } = context;
    const file = fileToRead(context, ["read"]);
    const { size } = file.content;
    const range = readRange(request, size);
    checkLocks(file, range?.start ?? 0, range?.end ?? Infinity);
    const headers = { ...fileHeaders(file, context), "accept-ranges": "bytes" };
    if ((range === undefined ? size : range.end - range.start + 1) > maxRead) throw notImplemented("reading more than 1 GiB by one request");
    if (!range) return { status: 200, headers, body: file.content.read(0, size - 1) };

    const body = file.content.read(range.start, range.end);
    const wantsMd5 = request.headers["x-ms-range-get-content-md5"] === "true";
    if (wantsMd5 && body.length > maxRange) throw new StorageFault("OutOfRangeInput");
    return {
      status: 206,
      headers: {
        ...headers,
        "content-range": `bytes ${range.start}-${range.end}/${size}`,
        "content-md5": wantsMd5 ? md5Of(body) : undefined,
        "x-ms-content-md5": file.httpHeaders.get("content-md5"),
      },
      body,
    };
  },
};

export const listRanges: Operation = {
  level: "object",
  permissions: "r",
  run: (context) => {
    const file = fileToRead(context, ["read"]);
    const { start, end } = readRange(context.request, file.content.size) ?? { start: 0, end: Infinity };
    const ranges = file.content.ranges.filter((range) => range.start <= end && range.end >= start);
    const items = ranges.map((range) =>
      element("Range", [element("Start", Math.max(start, range.start)), element("End", Math.min(end, range.end))]),
    );
    return {
      status: 200,
      headers: { ...stampHeaders(file), "content-type": "application/xml", "x-ms-content-length": String(file.content.size) },
      body: xmlDocument(element("Ranges", items)),
    };
  },
};

export const putRange: Operation = changeFile(201, ["write"], (file, { request, state }) => {
  const mode = requiredHeader(request, "x-ms-write").toLowerCase();
  const { start, end } = writeRange(request);
  if (mode !== "update" && mode !== "clear") throw new StorageFault("InvalidHeaderValue");
  const length = mode === "update" ? end - start + 1 : 0;
  if (length > maxRange) throw new StorageFault("RequestBodyTooLarge");
  if (request.body.length !== length) throw new StorageFault("InvalidHeaderValue");
  checkMd5(request);
  checkInFile(file, end);
  checkNotReadOnly(file);
  checkLocks(file, start, end);

  if (mode === "update") file.content.write(start, request.body);
  else file.content.clear(start, end);
  if (!isWord(request.headers["x-ms-file-last-write-time"], "preserve")) file.writtenAt = fileTimeOf(state.clock.now());
  return { "content-md5": mode === "update" ? md5Of(request.body) : undefined };
});

function checkInFile(file: FileEntry, end: number): void {
  if (end >= file.content.size) throw new StorageFault("InvalidRange");
}

function writeRange(request: FileRequest): ByteRange {
  const value = request.headers["x-ms-range"] ?? requiredHeader(request, "range");
  const [, first, last] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(value) ?? [];
  const range = { start: Number(first), end: Number(last) };
  if (!(range.start <= range.end)) throw new StorageFault("InvalidHeaderValue");
  return range;
}

/** The requested range, limited to the file; undefined for the whole file. */
function readRange(request: FileRequest, size: number): ByteRange | undefined {
  const value = request.headers["x-ms-range"] ?? request.headers["range"];
  if (value === undefined) return undefined;
  const [, first, last] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(value) ?? [];
  if (first === undefined || last === undefined) throw new StorageFault("InvalidHeaderValue");
  const range = { start: Number(first), end: last === "" ? size - 1 : Math.min(Number(last), size - 1) };
  if (range.start >= size || range.start > range.end) throw new StorageFault("InvalidRange", { headers: { "content-range": `bytes */${size}` } });
  return range;
}
