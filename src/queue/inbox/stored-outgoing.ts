import { textIn, textProperties } from "../../target/long-text.js";

/** An outgoing message as it is stored in the record of the commit that it belongs to. */
export interface StoredMessage {
  /** Identifies the queue: `account:queue`. */
  readonly queue: string;
  readonly key: string;
  /** The text as it is sent: envelope, payload and encoding. */
  readonly text: string;
  readonly timing: { readonly messageTimeToLive?: number; readonly visibilityTimeout?: number };
}

/** An entity has 1 MiB at most, and a character takes two bytes: the rest is for the other properties of the record. */
export const maxOutgoingCharacters: number = 450_000;

/** The properties of a record that contain its outgoing messages: as many as their JSON needs. */
export function outgoingProperties(messages: readonly StoredMessage[]): Record<string, string> {
  return messages.length === 0 ? {} : textProperties("outgoing", JSON.stringify(messages));
}

/** How many characters the messages take in a record. */
export function outgoingLength(messages: readonly StoredMessage[]): number {
  return JSON.stringify(messages).length;
}

/** The outgoing messages of a record; none if it has none. Undefined: another program has damaged them. */
export function outgoingIn(entity: object): readonly StoredMessage[] | undefined {
  const text = textIn(entity, "outgoing");
  if (text === "") return [];
  const messages: unknown = parse(text);
  return Array.isArray(messages) && messages.every(isStoredMessage) ? messages : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isStoredMessage(value: unknown): value is StoredMessage {
  if (typeof value !== "object" || value === null) return false;
  const { queue, key, text, timing } = value as Partial<Record<keyof StoredMessage, unknown>>;
  return typeof queue === "string" && typeof key === "string" && typeof text === "string" && isTiming(timing);
}

/** Other values would be rejected by the client, each time that the message is sent. */
function isTiming(value: unknown): value is StoredMessage["timing"] {
  if (typeof value !== "object" || value === null) return false;
  const { messageTimeToLive, visibilityTimeout } = value as Partial<Record<keyof StoredMessage["timing"], unknown>>;
  const isSeconds = (seconds: unknown, min: number): boolean => seconds === undefined || (Number.isSafeInteger(seconds) && (seconds as number) >= min);
  return isSeconds(messageTimeToLive, -1) && isSeconds(visibilityTimeout, 0);
}
