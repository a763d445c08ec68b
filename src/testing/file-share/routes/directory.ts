import { entryHeaders, smbPropertiesOf, stampHeaders, withAttribute } from "../entry-headers.js";
import { attributesText } from "../file-attributes.js";
import { fileTimeText } from "../file-time.js";
import { listPage } from "../listing.js";
import { metadataHeaders, metadataOf } from "../metadata.js";
import type { Operation, RouteContext } from "../operation.js";
import { httpDate } from "../response.js";
import { StorageFault } from "../storage-fault.js";
import { attach, detach, findPlace, newDirectory } from "../tree.js";
import type { DirectoryEntry, Entry } from "../tree.js";
import { element, xmlDocument } from "../xml.js";
import type { Xml } from "../xml.js";

export const createDirectory: Operation = {
  level: "object",
  permissions: "cw",
  run: ({ request, state }) => {
    const place = findPlace(state.share(request.target.share ?? ""), request.target.path);
    if (place.entry) throw new StorageFault("ResourceAlreadyExists");
    const directory = newDirectory(place.name, place.directory, { ...state.stamp(), metadata: metadataOf(request) });
    Object.assign(directory, withAttribute(smbPropertiesOf(request, directory.lastModified), "Directory"));
    attach(directory);
    return { status: 201, headers: { ...entryHeaders(directory), "x-ms-request-server-encrypted": "true" } };
  },
};

export const getDirectoryProperties: Operation = {
  level: "object",
  permissions: "r",
  run: (context) => {
    const directory = directoryFor(context);
    const headers = { ...entryHeaders(directory), ...metadataHeaders(directory.metadata), "x-ms-server-encrypted": "true" };
    return { status: 200, headers };
  },
};

export const setDirectoryMetadata: Operation = {
  level: "object",
  permissions: "w",
  run: (context) => {
    const directory = directoryFor(context);
    directory.metadata = metadataOf(context.request);
    context.state.touch(directory);
    return { status: 200, headers: entryHeaders(directory) };
  },
};

export const getDirectoryMetadata: Operation = {
  level: "object",
  permissions: "r",
  run: (context) => {
    const directory = directoryFor(context);
    return { status: 200, headers: { ...stampHeaders(directory), ...metadataHeaders(directory.metadata) } };
  },
};

export const deleteDirectory: Operation = {
  level: "object",
  permissions: "d",
  run: (context) => {
    const directory = directoryFor(context);
    if (!directory.parent) throw new StorageFault("CannotDeleteFileOrDirectory");
    if (directory.entries.size > 0) throw new StorageFault("DirectoryNotEmpty");
    detach(directory);
    return { status: 202 };
  },
};

export const listDirectory: Operation = {
  level: "object",
  permissions: "l",
  run: (context) => {
    const { request, url } = context;
    const directory = directoryFor(context);
    const include = new Set(request.query.get("include")?.toLowerCase().split(","));
    const visible = [...directory.entries.values()].filter((entry) => entry.type === "directory" || !entry.deletePending);
    const page = listPage(context, visible, (entry) => entry.name);
    const root = element(
      "EnumerationResults",
      [...page.head, element("Entries", page.items.map((entry) => listItem(entry, include))), ...page.tail, element("DirectoryId", directory.id)],
      { ServiceEndpoint: `${url}/`, ShareName: request.target.share ?? "", DirectoryPath: request.target.path.join("/") },
    );
    return { status: 200, headers: { "content-type": "application/xml" }, body: xmlDocument(root) };
  },
};

/** The directory that a request names; without a path it is the root of the share. */
function directoryFor({ request, state }: RouteContext): DirectoryEntry {
  const share = state.share(request.target.share ?? "");
  if (request.target.path.length === 0) return share.root;
  const { entry } = findPlace(share, request.target.path);
  if (!entry) throw new StorageFault("ResourceNotFound");
  if (entry.type !== "directory") throw new StorageFault("ResourceTypeMismatch");
  return entry;
}

function listItem(entry: Entry, include: ReadonlySet<string>): Xml {
  const properties: Xml[] = [];
  if (entry.type === "file") properties.push(element("Content-Length", entry.content.size));
  if (include.has("timestamps")) {
    properties.push(
      element("CreationTime", fileTimeText(entry.createdAt)),
      element("LastAccessTime", fileTimeText(entry.writtenAt)),
      element("LastWriteTime", fileTimeText(entry.writtenAt)),
      element("ChangeTime", fileTimeText(entry.changedAt)),
      element("Last-Modified", httpDate(entry.lastModified)),
    );
  }
  if (include.has("etag")) properties.push(element("Etag", entry.etag));
  const parts = [element("FileId", entry.id), element("Name", entry.name), element("Properties", properties)];
  if (include.has("attributes")) parts.push(element("Attributes", attributesText(entry.attributes)));
  return element(entry.type === "file" ? "File" : "Directory", parts);
}
