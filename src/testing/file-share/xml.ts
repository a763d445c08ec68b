/** A piece of XML, escaped. */
export type Xml = string & { readonly xml: true };

/** `<name>` around text, which is escaped, or around pieces of XML. */
export function element(name: string, content: string | number | readonly Xml[], attributes: Record<string, string> = {}): Xml {
  const inner = typeof content === "object" ? content.join("") : escapeXml(String(content));
  const head = Object.entries(attributes).map(([key, value]) => ` ${key}="${escapeXml(value)}"`);
  return (inner === "" ? `<${name}${head.join("")} />` : `<${name}${head.join("")}>${inner}</${name}>`) as Xml;
}

export function xmlDocument(root: Xml): Buffer {
  return Buffer.from(`<?xml version="1.0" encoding="utf-8"?>${root}`);
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
