import { StorageFault } from "./storage-fault.js";

/** In the order in which the service names them, which is that of their bits in Windows. */
const names = ["ReadOnly", "Hidden", "System", "Directory", "Archive", "Temporary", "Offline", "NotContentIndexed", "NoScrubData"] as const;
export type FileAttribute = (typeof names)[number];
export type FileAttributes = ReadonlySet<FileAttribute>;

/** `Hidden|Archive` in any case and order, with or without spaces; `None`, which is valid only alone, are no attributes. */
export function parseAttributes(text: string): FileAttributes {
  const parts = text.split("|").map((part) => part.trim().toLowerCase());
  if (parts.length === 1 && parts[0] === "none") return new Set();
  return new Set(
    parts.map((part) => {
      const name = names.find((known) => known.toLowerCase() === part);
      if (name === undefined) throw new StorageFault("InvalidHeaderValue");
      return name;
    }),
  );
}

/** As in a response: `Hidden | Archive`, with spaces. */
export function attributesText(attributes: FileAttributes): string {
  return names.filter((name) => attributes.has(name)).join(" | ") || "None";
}
