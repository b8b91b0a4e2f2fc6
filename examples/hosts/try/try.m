// Bq4.m at a desk, with GNUstep's Foundation: try MODEL PROMPT TOKENS, one part of the reply a line, then
// what a file that is none says.
#import <stdio.h>
#import <stdlib.h>

#import "Bq4.h"

@interface Out : NSObject <Bq4Listener> {
 @public
  int parts, most;
}
@end

@implementation Out

- (BOOL)replyText:(NSString *)text {
  if (most == 0) printf("%s\n", [text UTF8String]);
  return ++parts != most;
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
  Out *out = [[Out new] autorelease], *few = [[Out new] autorelease];
  few->most = 3;
  [model replyTo:prompt most:tokens temperature:0 seed:0 listener:out error:&error];
  [model replyTo:prompt most:tokens temperature:0 seed:0 listener:few error:&error];
  printf("stopped after %d\n", few->parts);
  [model release];
  model = [[Bq4 alloc] initWithFile:[NSMutableData dataWithLength:100] context:0 error:&error];
  printf("%s\n", model ? "no failure" : [[error localizedDescription] UTF8String]);
  [pool release];
  return 0;
}
