/** The SDK clients and values that all files of this folder use. Nothing here runs: the files are only compiled. */
import type { TableClient } from "@azure/data-tables";
import type { AppendBlobClient, BlobClient, BlockBlobClient, ContainerClient, PageBlobClient } from "@azure/storage-blob";
import type { ShareClient, ShareDirectoryClient, ShareFileClient } from "@azure/storage-file-share";
import type { QueueClient } from "@azure/storage-queue";
import * as z from "zod";

export declare const container: ContainerClient;
export declare const blob: BlockBlobClient;
export declare const anyBlob: BlobClient;
export declare const appendBlob: AppendBlobClient;
export declare const pageBlob: PageBlobClient;
export declare const table: TableClient;
export declare const queue: QueueClient;
export declare const poisonQueue: QueueClient;
export declare const share: ShareClient;
export declare const directory: ShareDirectoryClient;
export declare const file: ShareFileClient;

export interface Counter {
  count: number;
}

/** A discriminated union: its literals are lost if a call widens what a mutator returns. */
export type Shape = { kind: "circle"; radius: number; tags?: number[] } | { kind: "label"; text: string };

export interface Customer {
  email: string;
  visits: number;
}

export interface Account {
  balance: number;
}

/** Its input type has an optional `count`, its output type has not. */
export const settingsSchema = z.object({ count: z.number().default(0), name: z.string() });
export interface Settings {
  count: number;
  name: string;
}

export const orderSchema = z.object({ id: z.string(), customer: z.string(), amount: z.number().default(1) });
export interface Order {
  id: string;
  customer: string;
  amount: number;
}
