/** The properties of a message that are known before its payload is decoded. See {@link QueueConsumerOptions.decode}. */
export interface MessageProperties {
  /** The id that the queue assigned to the message. */
  readonly messageId: string;
  /** When the message was sent, by the clock of the service. */
  readonly insertedOn: Date;
  /** How often the queue has delivered the message, this time included. */
  readonly dequeueCount: number;
}
