import { testBlobLeases } from "./blob-lease.suite.js";
import { testContainerLeases } from "./container-lease.suite.js";
import { testLeaseActions } from "./lease-actions.suite.js";

// In one file, so that the shortest lease there is, of 15 seconds, is waited for once: each of them takes its leases
// before the first test of the file, and asks for what has run out last.
testLeaseActions();
testContainerLeases();
testBlobLeases();
