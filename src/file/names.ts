/** How the file is called in which new content is written, beside the file itself: its name and this. */
export const asideSuffix = ".asc-new";

/** What the service takes as the name of a file. */
export const maxNameLength = 255;
