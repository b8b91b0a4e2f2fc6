// Runs Bq4.m without a phone, with GNUstep's Foundation: try MODEL PROMPT TOKENS. Prints each part of the reply
// in a line, then the results of a stop and of bytes that are no model.
#import <stdio.h>
#import <stdlib.h>

#import "Bq4.h"

/** Prints the parts of a reply if maxParts is 0; otherwise counts them, and stops the reply after maxParts. */
@interface Printer : NSObject <Bq4Listener> {
 @public
  int parts, maxParts;
}
@end

@implementation Printer

- (BOOL)replyText:(NSString *)text {
  if (maxParts == 0) printf("%s\n", [text UTF8String]);
  return ++parts != maxParts;
}

@end

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  NSAutoreleasePool *pool = [NSAutoreleasePool new];
  NSError *error = nil;
  NSData *file = [NSData dataWithContentsOfFile:[NSString stringWithUTF8String:argv[1]]];
  NSString *prompt = [NSString stringWithUTF8String:argv[2]];
  uint32_t tokens = (uint32_t)strtoul(argv[3], NULL, 10);
  Bq4 *model = [[Bq4 alloc] initWithFile:file context:256 error:&error];
  Printer *printer = [[Printer new] autorelease], *counter = [[Printer new] autorelease];
  counter->maxParts = 3;
  [model replyTo:prompt maxTokens:tokens temperature:0 seed:0 listener:printer error:&error];
  [model replyTo:prompt maxTokens:tokens temperature:0 seed:0 listener:counter error:&error];
  printf("stopped after %d\n", counter->parts);
  [model release];
  model = [[Bq4 alloc] initWithFile:[NSMutableData dataWithLength:100] context:0 error:&error];
  printf("%s\n", model ? "expected an error, but 100 zero bytes were loaded"
                       : [[error localizedDescription] UTF8String]);
  [pool release];
  return 0;
}
