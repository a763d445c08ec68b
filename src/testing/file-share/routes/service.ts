import { leaseHeaders } from "../entry-headers.js";
import { listPage } from "../listing.js";
import type { Operation } from "../operation.js";
import { httpDate } from "../response.js";
import type { Share } from "../tree.js";
import { element, xmlDocument } from "../xml.js";
import type { Xml } from "../xml.js";

export const listShares: Operation = {
  level: "service",
  permissions: "l",
  run: (context) => {
    const { request, state, url } = context;
    const withMetadata = request.query.get("include")?.split(",").includes("metadata") ?? false;
    const page = listPage(context, state.shares.values(), (share) => share.name);
    const items = page.items.map((share) => shareItem(share, withMetadata, state.clock.now()));
    const root = element("EnumerationResults", [...page.head, element("Shares", items), ...page.tail], { ServiceEndpoint: `${url}/` });
    return { status: 200, headers: { "content-type": "application/xml" }, body: xmlDocument(root) };
  },
};

function shareItem(share: Share, withMetadata: boolean, now: number): Xml {
  const lease = leaseHeaders(share.lease, now);
  const properties = [
    element("Last-Modified", httpDate(share.lastModified)),
    element("Etag", share.etag),
    element("Quota", share.quotaInGiB),
    element("AccessTier", share.accessTier),
    element("LeaseStatus", lease["x-ms-lease-status"] ?? ""),
    element("LeaseState", lease["x-ms-lease-state"] ?? ""),
  ];
  const duration = lease["x-ms-lease-duration"];
  if (duration !== undefined) properties.push(element("LeaseDuration", duration));
  const parts = [element("Name", share.name), element("Properties", properties)];
  if (withMetadata) parts.push(element("Metadata", Array.from(share.metadata, ([name, value]) => element(name, value))));
  return element("Share", parts);
}
