#import "Bq4.h"

#include "reply.h"

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

NSString *const Bq4ErrorDomain = @"bq4";

/* Sets *error to the detail and the hint of *err, if the caller passed an address for it. */
static void set_error(NSError **error, const bq_error *err) {
  if (!error) return;
  NSDictionary *info = [NSDictionary
      dictionaryWithObjectsAndKeys:[NSString stringWithUTF8String:err->detail],
                                   NSLocalizedDescriptionKey,
                                   [NSString stringWithUTF8String:bq_status_hint(err->status)],
                                   NSLocalizedRecoverySuggestionErrorKey, nil];
  *error = [NSError errorWithDomain:Bq4ErrorDomain code:err->status userInfo:info];
}

/* A reply_text: passes text to the listener. `ctx` is an id<Bq4Listener>, owned by the caller of
 * reply_run. */
static bool pass_text(void *ctx, const char *text, size_t n) {
#if __has_feature(objc_arc)
  id<Bq4Listener> listener = (__bridge id<Bq4Listener>)ctx;
#else
  id<Bq4Listener> listener = (id<Bq4Listener>)ctx;
#endif
  NSString *string = [[NSString alloc] initWithBytes:text length:n encoding:NSUTF8StringEncoding];
  BOOL more = [listener replyText:string];
#if !__has_feature(objc_arc)
  [string release];
#endif
  return more;
}

@implementation Bq4

- (instancetype)initWithFile:(NSData *)file context:(uint32_t)context error:(NSError **)error {
  if (!(self = [super init])) return nil;
  bq_error err = {0};
  model = reply_open([file bytes], [file length], context, &err);
  if (model) return self;
  set_error(error, &err);
#if !__has_feature(objc_arc)
  [self release];
#endif
  return nil;
}

- (void)dealloc {
  reply_close(model);
#if !__has_feature(objc_arc)
  [super dealloc];
#endif
}

- (BOOL)replyTo:(NSString *)prompt
      maxTokens:(uint32_t)maxTokens
    temperature:(float)temperature
           seed:(uint64_t)seed
       listener:(id<Bq4Listener>)listener
          error:(NSError **)error {
  bq_error err = {0};
  NSData *bytes = [prompt dataUsingEncoding:NSUTF8StringEncoding];
#if __has_feature(objc_arc)
  void *ctx = (__bridge void *)listener;
#else
  void *ctx = (void *)listener;
#endif
  if (!reply_run(model, [bytes bytes], [bytes length], maxTokens, temperature, seed, pass_text, ctx,
                 &err))
    return YES;
  set_error(error, &err);
  return NO;
}

@end
