/* All samples, one after the other: `npm start`. */
import { auditLog } from "./audit-log.js";
import { blobOptimistic } from "./blob-optimistic.js";
import { blobPessimistic } from "./blob-pessimistic.js";
import { customerEmail } from "./customer-email.js";
import { forceUnlock } from "./force-unlock.js";
import { hotCounter } from "./hot-counter.js";
import { leaderElection } from "./leader-election.js";
import { liveConfiguration } from "./live-configuration.js";
import { lostResponse } from "./lost-response.js";
import { recalculation } from "./recalculation.js";
import { semaphore } from "./semaphore.js";
import { sharedSettingsFile } from "./shared-settings-file.js";
import { say } from "./support/narrator.js";
import { orderNumbers } from "./order-numbers.js";
import { orderConsumer } from "./order-consumer.js";
import { poisonAndRedrive } from "./poison-and-redrive.js";
import { gracefulShutdown } from "./graceful-shutdown.js";
import { openStorage } from "./support/storage.js";
import { transfers } from "./transfers.js";

const storage = await openStorage();
const where = storage.isEmulator ? "an embedded Azurite" : "the account of AZURE_STORAGE_CONNECTION_STRING";
say.title(`A tour of azure-storage-concurrency, on ${where}`);
try {
  const samples = [
    blobOptimistic,
    customerEmail,
    hotCounter,
    lostResponse,
    liveConfiguration,
    transfers,
    auditLog,
    orderNumbers,
    blobPessimistic,
    semaphore,
    forceUnlock,
    sharedSettingsFile,
    recalculation,
    orderConsumer,
    gracefulShutdown,
    poisonAndRedrive,
    leaderElection,
  ];
  for (const sample of samples) {
    say.title(sample.title);
    await sample.run(storage);
  }
} finally {
  await storage.close();
}
