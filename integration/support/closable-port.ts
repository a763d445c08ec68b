import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

/** Passes bytes to a server, until its port is closed: then connections are refused, as by a machine whose service is down. */
export interface ClosablePort {
  /** The target URL with another port. */
  readonly url: string;
  /** Cuts all connections, and refuses new ones. */
  close(): Promise<void>;
  /** Listens again. */
  open(): Promise<void>;
}

/** The system gives ports above these to those who ask for a free one: none of them takes the port while it is closed. */
const lowest = 20_000;
const count = 10_000;

export async function startClosablePort(targetUrl: string): Promise<ClosablePort> {
  const target = new URL(targetUrl);
  const sockets = new Set<Socket>();
  const add = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    add(client);
    add(upstream);
    client.on("close", () => upstream.destroy()).pipe(upstream);
    upstream.on("close", () => client.destroy()).pipe(client);
  });
  const listen = (port: number): Promise<number> =>
    new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", () => {
        server.off("error", reject);
        resolve((server.address() as AddressInfo).port);
      });
    });
  // Another program may have one.
  const tryPort = (): Promise<number> => listen(lowest + Math.floor(Math.random() * count));
  const port = await tryPort().catch(tryPort).catch(tryPort);
  const url = new URL(targetUrl);
  url.port = String(port);
  return {
    url: url.href.replace(/\/$/, ""),
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
    open: async () => {
      if (!server.listening) await listen(port);
    },
  };
}
