/** The services of a storage account, as the command line names them. */
export const services = ["blob", "table", "queue", "file"] as const;
export type Service = (typeof services)[number];
