/* One of several schedulers: takes part in an election and says so. */
import { BlobServiceClient } from "@azure/storage-blob";
import { BlobLocks, LeaderElection } from "azure-storage-concurrency";

const [connectionString = "", containerName = "", name = ""] = process.argv.slice(2);
const container = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(containerName);

const election = new LeaderElection(new BlobLocks(container, { holder: name }), "scheduler", {
  durationInSeconds: 15,
  onElected: (term) => {
    process.send?.({ elected: term.epoch });
  },
});
election.start();
// Without the parent there is nobody to schedule for.
process.on("disconnect", () => void election.stop().then(() => process.exit()));
