#import "Bq4.h"

#include "reply.h"

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

NSString *const Bq4ErrorDomain = @"bq4";

static void fill(NSError **error, const bq_error *err) {
  if (!error) return;
  NSDictionary *info = [NSDictionary
      dictionaryWithObjectsAndKeys:[NSString stringWithUTF8String:err->detail],
                                   NSLocalizedDescriptionKey,
                                   [NSString stringWithUTF8String:bq_status_hint(err->status)],
                                   NSLocalizedRecoverySuggestionErrorKey, nil];
  *error = [NSError errorWithDomain:Bq4ErrorDomain code:err->status userInfo:info];
}

/* `ctx`: an id<Bq4Listener>, which the caller of reply_run keeps alive. */
static bool told(void *ctx, const char *text, size_t n) {
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
  fill(error, &err);
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
           most:(uint32_t)most
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
  if (!reply_run(model, [bytes bytes], [bytes length], most, temperature, seed, told, ctx, &err))
    return YES;
  fill(error, &err);
  return NO;
}

@end
