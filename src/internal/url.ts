/** A URL as it may appear in messages, spans and logs: without the query, where a SAS has its signature. */
export function displayUrl(url: string): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}
