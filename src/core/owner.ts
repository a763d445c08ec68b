/** What stands for a client's rights: its pipeline, which clients made from each other share; else the client. */
export function ownerOf(client: object): object {
  const { pipeline } = client as { pipeline?: unknown };
  return typeof pipeline === "object" && pipeline !== null ? pipeline : client;
}
