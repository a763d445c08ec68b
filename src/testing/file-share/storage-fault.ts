interface FaultDetails {
  readonly status: number;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
}

const table = {
  AuthenticationFailed: [403, "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."],
  AuthorizationFailure: [403, "This request is not authorized to perform this operation."],
  AuthorizationPermissionMismatch: [403, "This request is not authorized to perform this operation using this permission."],
  AuthorizationProtocolMismatch: [403, "This request is not authorized to perform this operation using this protocol."],
  AuthorizationResourceTypeMismatch: [403, "This request is not authorized to perform this operation using this resource type."],
  AuthorizationServiceMismatch: [403, "This request is not authorized to perform this operation using this service."],
  CannotDeleteFileOrDirectory: [409, "An attempt has been made to remove a file or directory that cannot be deleted."],
  CannotVerifyCopySource: [404, "The specified copy source does not exist or may not be read."],
  ClientCacheFlushDelay: [500, "The specified resource state could not be flushed from an SMB client in the specified time."],
  DeletePending: [409, "The specified resource is marked for deletion by an SMB client."],
  DirectoryNotEmpty: [409, "The specified directory is not empty."],
  EmptyMetadataKey: [400, "The key for one of the metadata key-value pairs is empty."],
  FileLockConflict: [409, "A portion of the specified file is locked by an SMB client."],
  InternalError: [500, "The server encountered an internal error. Please retry the request."],
  InvalidHeaderValue: [400, "The value for one of the HTTP headers is not in the correct format."],
  InvalidMetadata: [400, "The metadata specified is invalid. It has characters that are not permitted."],
  InvalidQueryParameterValue: [400, "Value for one of the query parameters specified in the request URI is invalid."],
  InvalidRange: [416, "The range specified is invalid for the current size of the resource."],
  InvalidResourceName: [400, "The specified resource name contains invalid characters."],
  InvalidUri: [400, "The requested URI does not represent any resource on the server."],
  InvalidXmlDocument: [400, "XML specified is not syntactically valid."],
  LeaseAlreadyPresent: [409, "There is already a lease present."],
  LeaseIdMismatchWithContainerOperation: [412, "The lease ID specified did not match the lease ID for the file share."],
  LeaseIdMismatchWithFileOperation: [412, "The lease ID specified did not match the lease ID for the file."],
  LeaseIdMismatchWithLeaseOperation: [409, "The lease ID specified did not match the lease ID for the {resource}."],
  LeaseIdMissing: [412, "There is currently a lease on the {resource} and no lease ID was specified in the request."],
  LeaseIsBreakingAndCannotBeAcquired: [409, "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."],
  LeaseIsBreakingAndCannotBeChanged: [409, "The lease ID matched, but the lease is currently in breaking state and cannot be changed."],
  LeaseIsBrokenAndCannotBeRenewed: [409, "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."],
  LeaseLost: [412, "A lease ID was specified, but the lease for the file share has expired."],
  LeaseLostWithFileOperation: [412, "A lease ID was specified, but the lease for the file has expired."],
  LeaseNotPresentWithContainerOperation: [412, "There is currently no lease on the file share."],
  LeaseNotPresentWithFileOperation: [412, "There is currently no lease on the file."],
  LeaseNotPresentWithLeaseOperation: [409, "There is currently no lease on the {resource}."],
  Md5Mismatch: [400, "The MD5 value specified in the request did not match with the MD5 value calculated by the server."],
  MetadataTooLarge: [400, "The size of the specified metadata exceeds the maximum size permitted."],
  MissingRequiredHeader: [400, "An HTTP header that's mandatory for this request is not specified."],
  NoAuthenticationInformation: [401, "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."],
  NoPendingCopyOperation: [409, "There is currently no pending copy operation."],
  NotImplemented: [501, "This test server does not implement the operation."],
  OutOfRangeInput: [400, "One of the request inputs is out of range."],
  ParentNotFound: [404, "The specified parent path does not exist."],
  ReadOnlyAttribute: [409, "The specified resource is read-only and cannot be modified at this time."],
  RequestBodyTooLarge: [413, "The request body is too large and exceeds the maximum permissible limit."],
  ResourceAlreadyExists: [409, "The specified resource already exists."],
  ResourceNotFound: [404, "The specified resource does not exist."],
  ResourceTypeMismatch: [409, "The specified resource type does not match the type of the existing resource."],
  ShareAlreadyExists: [409, "The specified share already exists."],
  ShareNotFound: [404, "The specified share does not exist."],
  SharingViolation: [409, "The specified resource may be in use by an SMB client."],
} as const;

/** The error codes of the server, with their status and message: as recorded from the service, or else as documented. */
export type FaultCode = keyof typeof table;

/** Rejects a request. Thrown anywhere while it is handled, before anything is changed. */
export class StorageFault extends Error {
  override readonly name = "StorageFault";
  readonly code: FaultCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: FaultCode, details: Partial<FaultDetails> & { resource?: string } = {}) {
    const [status, message] = table[code];
    super(details.message ?? message.replace("{resource}", details.resource ?? "resource"));
    this.code = code;
    this.status = details.status ?? status;
    this.headers = details.headers ?? {};
  }
}
